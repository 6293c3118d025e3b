#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "messages/episode_measured.h"
#include "policy/loss/baseline.h"
#include "policy/loss/outlier.h"
#include "policy/loss/reward.h"

namespace emplace::actors {

/// Which placements of a graph share a baseline.
enum class BaselinePer : std::uint8_t {
  kController,  ///< One baseline per sampler, as in ColocRL.
  kRun,         ///< One baseline for the run, as in Placeto.
  kHost,        ///< One baseline per measuring host, for hosts of different speed.
};
constexpr auto enum_words(BaselinePer) {
  return EnumWords{"share of a baseline",
                   std::array{EnumWord{BaselinePer::kController, "controller"},
                              EnumWord{BaselinePer::kRun, "run"}, EnumWord{BaselinePer::kHost, "host"}}};
}

/// The memory of a graph's machine.
struct GraphMemory {
  std::vector<std::int64_t> bytes;  ///< [devices] For reward.excess = kMax; empty: unknown.
  policy::MemoryPrice price;        ///< At first, before any placement.
};

struct ScoringOptions {
  policy::RewardOptions reward;
  policy::BaselineOptions baseline;
  std::map<std::string, GraphMemory> memory;  ///< The keys are graph_sha256.
  BaselinePer per = BaselinePer::kController;
  /// If > 0: a valid placement whose cost is an outlier of its baseline (policy::OutlierFilter) does not
  /// count.
  double outlier = 0;
  /// If > 0: the memory penalty adapts until this share of placements fits (policy::AdaptivePenalty).
  double valid_target = 0;
  /// An infeasible placement costs at least the best feasible one of the same baseline plus the penalty
  /// (policy::MemoryFloor).
  bool fits_first = false;
  /// Policy versions after which only valid placements count. Paper: Hierarchical 2018,
  /// section 3 [HIE-VALID]; ColocRL 2017, section 3.1 [COL-VALID]
  std::uint64_t valid_only_after = 500;

  void list(Settings& settings) {
    reward.list(settings);
    baseline.list(settings);
    settings.add(
        "baseline_per", per,
        "Which placements share a baseline: those of each controller, of the whole run, or of the host "
        "that measured them.");
    settings.add(
        "outlier", outlier, at_least(0),
        "Excludes a placement whose cost exceeds the median of its baseline's last 100 by more than this "
        "many median absolute deviations; 0 disables the filter. Paper: 0.");
    settings.add("valid_target", valid_target, from_to_below(0, 1),
                 "Adapts the memory penalty until this share of placements fits; 0 disables the adaptation. "
                 "Paper: 0.");
    settings.add(
        "fits_first", fits_first,
        "Makes a placement that does not fit cost at least as much as the best one that does; requires "
        "graded_memory. Paper: false.");
    settings.add("valid_only_after", valid_only_after,
                 "Updates after which only placements that fit count. Paper: 500.");
  }
};

/// Computes the advantages of episodes; one baseline per graph and controller, run or host. A function of the
/// episodes so far, in order. Thread: one.
class Scoring {
 public:
  explicit Scoring(ScoringOptions options) : options_{std::move(options)} {}
  /// Costs, advantages and baseline of the next episode. @pre it is consistent.
  messages::EpisodeScored score(const messages::EpisodeCommitted& committed);

 private:
  /// Graph, and controller or host, depending on ScoringOptions::per.
  using Key = std::tuple<std::string, std::uint32_t, std::string>;
  struct BaselineState {
    policy::Baseline baseline;
    policy::OutlierFilter outliers;
    policy::AdaptivePenalty penalty;
    policy::MemoryFloor floor;
  };
  Key key_of(const messages::EpisodeMeasured& measured, std::uint32_t placement) const;
  static void compute_advantages(BaselineState& state, std::span<const std::uint32_t> numbers,
                                 messages::EpisodeScored& scored);

  const ScoringOptions options_;
  std::map<Key, BaselineState> states_;
};

}  // namespace emplace::actors
