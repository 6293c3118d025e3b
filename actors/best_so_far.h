#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "messages/episode_measured.h"
#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

/// Cost of a placement, as incumbents are compared.
struct IncumbentCost {
  bool known = false;
  std::int64_t bytes_over = 0;
  double step_time_s = 0;
  double energy = 0;  ///< log(step time) + memory_penalty(); infinite without a step time.
  bool beats(const IncumbentCost& other, policy::Incumbent by) const;
};

/// Incumbent of each graph among a sampler's own episodes, for policies whose episodes start from it.
/// Episodes are processed by number, so that a deterministic run always draws from the same one. Pure; one
/// thread.
class BestSoFar {
 public:
  /// `memory_bytes`: [graphs] smallest_memory() of the graph's devices.
  explicit BestSoFar(std::vector<std::int64_t> memory_bytes)
      : memory_bytes_{std::move(memory_bytes)}, known_(memory_bytes_.size()), best_(memory_bytes_.size()) {}

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
  void measured(const messages::EpisodeMeasured& measured, const policy::Drawing& placer);

  /// Processes all measured episodes below `end`. With `in_order`, stops at the first unmeasured one and
  /// returns false. `placer` interprets the actions.
  bool settle(std::uint64_t end, bool in_order, const policy::Drawing& placer);
  /// Incumbents [graphs]; empty if a graph has none yet.
  const std::vector<Placement>& placements() const { return best_; }

 private:
  struct Waiting {
    policy::Actions actions;
    IncumbentCost best;        // Best cost of the episode; unknown until it is measured.
    std::uint32_t number = 0;  // Index of that placement in the episode.
  };
  std::map<std::uint64_t, Waiting> waiting_;      // Episodes, by number, that best_ does not account for.
  const std::vector<std::int64_t> memory_bytes_;  // [graphs]
  std::vector<IncumbentCost> known_;              // [graphs]
  std::vector<Placement> best_;                   // [graphs]
};

}  // namespace emplace::actors
