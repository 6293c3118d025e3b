#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "messages/episode_measured.h"
#include "policy/objective/adaptive_penalty.h"
#include "policy/objective/baseline.h"
#include "policy/objective/memory_floor.h"
#include "policy/objective/outlier.h"
#include "policy/objective/reward.h"

namespace emplace::actors {

/// Whose placements share a baseline, on one graph.
enum class BaselinePer : std::uint8_t {
  kController,  ///< Each sampler's its own, as ColocRL has it.
  kRun,         ///< All of a run, as Placeto's workers do.
  kHost,        ///< Those that were measured on the same host: where hosts are not equally fast.
};

struct ScoringOptions {
  policy::RewardOptions reward;
  policy::BaselineOptions baseline;
  BaselinePer per = BaselinePer::kController;
  /// > 0: a valid placement whose cost is an outlier of its baseline's (policy::OutlierFilter) does not
  /// count.
  double outlier = 0;
  /// > 0: the memory penalty adapts until this share of placements fits (policy::AdaptivePenalty).
  double valid_target = 0;
  /// What does not fit costs no less than the best that does, of the same baseline, and the penalty
  /// (policy::MemoryFloor).
  bool fits_first = false;
  /// After so many policy versions only valid placements count.   Paper: Hierarchical 2018, section 3.1
  std::uint64_t valid_only_after = 500;
};

/// How much better or worse than usual the placements of an episode were; one baseline per graph and
/// controller, run or host. A function of the episodes so far, in order. Thread: one.
class Scoring {
 public:
  explicit Scoring(ScoringOptions options) : options_{options} {}
  /// The next episode's costs, advantages and baseline. @pre it is consistent.
  messages::EpisodeScored score(const messages::EpisodeCommitted& committed);

 private:
  /// Graph; then a controller or a host, whatever baselines are kept per.
  using Key = std::tuple<std::string, std::uint32_t, std::string>;
  struct Usual {
    policy::Baseline baseline;
    policy::OutlierFilter outliers;
    policy::AdaptivePenalty penalty;
    policy::MemoryFloor floor;
  };
  Key key_of(const messages::EpisodeMeasured& measured, std::uint32_t placement) const;
  static void hold_against(Usual& usual, std::span<const std::uint32_t> numbers,
                           messages::EpisodeScored& scored);

  const ScoringOptions options_;
  std::map<Key, Usual> usual_;
};

}  // namespace emplace::actors
