#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "base/settings.h"
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
constexpr auto enum_words(BaselinePer) {
  return EnumWords{"share of a baseline",
                   std::array{EnumWord{BaselinePer::kController, "controller"},
                              EnumWord{BaselinePer::kRun, "run"}, EnumWord{BaselinePer::kHost, "host"}}};
}

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

  void list(Settings& settings) {
    reward.list(settings);
    baseline.list(settings);
    settings.add("baseline_per", per,
                 "Whose placements share a baseline: those of each controller, of the whole run, or of the "
                 "host that measured them.");
    settings.add("outlier", outlier, at_least(0),
                 "Leaves out a placement that costs more than this many median absolute deviations above the "
                 "median of its baseline's last 100; 0: none. Paper: 0.");
    settings.add("valid_target", valid_target, from_to_below(0, 1),
                 "Share of placements that should fit: the memory penalty adapts until they do; 0: it stays. "
                 "Paper: 0.");
    settings.add("fits_first", fits_first,
                 "Lets a placement that does not fit cost at least the best that does, with graded_memory. "
                 "Paper: false.");
    settings.add("valid_only_after", valid_only_after,
                 "Updates after which only placements that fit count. Paper: 500.");
  }
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
