#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

/// An episode as it was drawn.
struct Draw {
  policy::Actions actions;
  std::vector<Placement> placements;
  std::vector<std::uint64_t> keys;  ///< [placements] Hashes; empty without redraws.
  std::size_t fresh = 0;            ///< Placements that were not proposed before.
};

/// Draws episodes. With redraws, an episode that repeats placements proposed before is drawn again, at most
/// `redraws` times, and the draw with the most new placements counts: a policy that has converged then
/// explores around its mode. Pure; one thread.
class Drawer {
 public:
  explicit Drawer(std::uint32_t redraws) : redraws_{redraws} {}

  /// A function of the arguments and of what was proposed. `graphs`: of the task; `best`: [graphs].
  Draw draw(const policy::Drawing& placer, std::size_t graphs, std::span<const Placement> best,
            std::uint64_t episode, std::uint64_t version) const;
  /// The draw was sent.
  void proposed(const Draw& draw) { proposed_.insert(draw.keys.begin(), draw.keys.end()); }

 private:
  const std::uint32_t redraws_;
  std::unordered_set<std::uint64_t> proposed_;  // Keys.
};

}  // namespace emplace::actors
