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

/// The cost of the best placement of a graph: one that fits before one that does not, then the faster.
struct BestKnown {
  bool known = false;
  std::int64_t bytes_over = 0;
  double step_time_s = 0;
  bool beats(const BestKnown& other) const {
    if (known != other.known) return known;
    return bytes_over != other.bytes_over ? bytes_over < other.bytes_over : step_time_s < other.step_time_s;
  }
};

/// The best placement of each graph among a sampler's own episodes, for policies whose episodes start there.
/// Episodes are taken in their order, so that a deterministic run draws from the same best every time.
/// Pure; one thread.
class BestSoFar {
 public:
  explicit BestSoFar(std::size_t graphs) : known_(graphs), best_(graphs) {}

  /// An episode was proposed with these actions. What the log said of it before stays.
  void proposed(std::uint64_t episode, const policy::Actions& actions) {
    waiting_.try_emplace(episode, Waiting{actions, {}, 0});
  }
  /// The log says with which actions it was measured.
  void logged(std::uint64_t episode, std::span<const std::byte> actions);
  /// True if the episode was proposed and is not measured yet.
  bool is_unmeasured(std::uint64_t episode) const;
  /// All such episodes.
  std::vector<std::uint64_t> unmeasured() const;
  /// Its costs. Nothing changes if it is not unmeasured.
  void measured(const messages::EpisodeMeasured& measured);

  /// Takes into account all measured episodes below `end`. With `in_order`, stops at the first one that is
  /// not measured. False: it stopped. `placer` understands the actions.
  bool settle(std::uint64_t end, bool in_order, const policy::Drawing& placer);
  /// [graphs] The best placements; empty where there is none yet.
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
