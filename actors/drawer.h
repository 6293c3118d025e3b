#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_set>
#include <vector>

#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

/// A drawn episode.
struct Draw {
  policy::Actions actions;
  std::vector<Placement> placements;
  std::vector<std::uint64_t> keys;  ///< Hashes of the placements [placements]; empty without redraws.
  std::size_t fresh = 0;            ///< Placements not proposed before.
};

/// Draws episodes. With redraws, an episode that repeats earlier placements is drawn again, up to `redraws`
/// times, and the draw with the most new placements is used: a converged policy then explores around its
/// mode. Only the newest kRemembered proposals count as earlier ones. Pure; one thread.
class Drawer {
 public:
  explicit Drawer(std::uint32_t redraws) : redraws_{redraws} {}

  /// Deterministic in its arguments and the placements proposed so far. `graphs`: number in the task; `best`:
  /// [graphs].
  Draw draw(const policy::Drawing& placer, std::size_t graphs, std::span<const Placement> best,
            std::uint64_t episode, std::uint64_t version) const;
  static constexpr std::size_t kRemembered = 65'536;

  /// Records a draw that was sent.
  void proposed(const Draw& draw);

 private:
  const std::uint32_t redraws_;
  std::unordered_set<std::uint64_t> proposed_;  // Hashes of proposed placements.
  std::deque<std::uint64_t> order_;             // The same, oldest first.
};

}  // namespace emplace::actors
