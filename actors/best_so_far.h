#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "messages/episode_measured.h"
#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

/// Cost of a graph's best placement. Feasible ones come first, then the smallest memory excess, then the step
/// time.
struct BestKnown {
  bool known = false;
  std::int64_t bytes_over = 0;
  double step_time_s = 0;
  bool beats(const BestKnown& other) const {
    if (known != other.known) return known;
    return bytes_over != other.bytes_over ? bytes_over < other.bytes_over : step_time_s < other.step_time_s;
  }
};

/// Best placement of each graph among a sampler's own episodes, for policies whose episodes start from it.
/// Episodes are processed by number, so that a deterministic run always draws from the same best. Pure; one
/// thread.
class BestSoFar {
 public:
  explicit BestSoFar(std::size_t graphs) : known_(graphs), best_(graphs) {}

  /// Records the actions of a proposed episode. Actions already read from the log take precedence.
  void proposed(std::uint64_t episode, const policy::Actions& actions) {
    waiting_.try_emplace(episode, Waiting{actions, {}, 0});
  }
  /// Records the actions with which the episode was measured, as read from the log.
  void logged(std::uint64_t episode, std::span<const std::byte> actions);
  /// Whether the episode was proposed but is not measured yet.
  bool is_unmeasured(std::uint64_t episode) const;
  /// All unmeasured episodes.
  std::vector<std::uint64_t> unmeasured() const;
  /// Records the costs of an episode; no effect unless it is unmeasured.
  void measured(const messages::EpisodeMeasured& measured);

  /// Processes all measured episodes below `end`. With `in_order`, stops at the first unmeasured one and
  /// returns false. `placer` interprets the actions.
  bool settle(std::uint64_t end, bool in_order, const policy::Drawing& placer);
  /// Best placements [graphs]; empty if a graph has none yet.
  const std::vector<Placement>& placements() const { return best_; }

 private:
  struct Waiting {
    policy::Actions actions;
    BestKnown best;            // Best cost of the episode; unknown until it is measured.
    std::uint32_t number = 0;  // Index of that placement in the episode.
  };
  std::map<std::uint64_t, Waiting> waiting_;  // Episodes, by number, that best_ does not account for.
  std::vector<BestKnown> known_;              // [graphs]
  std::vector<Placement> best_;               // [graphs]
};

}  // namespace emplace::actors
