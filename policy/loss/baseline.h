#pragma once
/// Expected cost of a placement, subtracted to reduce the variance of the gradient.
///   advantage = cost - baseline: below 0 is better than expected.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/settings.h"

namespace emplace::policy {

enum class BaselineKind : std::uint8_t {
  kMovingAverage,  ///< B ← decay B + (1 - decay) R               Paper: ColocRL 2017, section 3.1  [COL-B]
  kMean,           ///< Mean of all earlier trials.             Paper: Spotlight 2018, Eq. 1  [SPO-B]
  kStepMean,    ///< Mean at the same step over the last episodes.   Paper: Placeto 2019, section 2.3  [PLA-B]
  kSelfCritic,  ///< Cost of the policy's most likely placement, the last of the episode.   Rennie 2017, Eq. 7
};
constexpr auto enum_words(BaselineKind) {
  return EnumWords{"baseline", std::array{EnumWord{BaselineKind::kMovingAverage, "moving-average"},
                                          EnumWord{BaselineKind::kMean, "mean"},
                                          EnumWord{BaselineKind::kStepMean, "step-mean"},
                                          EnumWord{BaselineKind::kSelfCritic, "self-critic"}}};
}

/// Cost that a choice is credited with.
enum class Returns : std::uint8_t {
  kPlacement,  ///< An episode is a set of placements; each choice is credited with its placement's cost.
  /// An episode is a sequence; step t is credited with Σ_{u≥t} γ^(u-t) (ρ(s_{u+1}) - ρ(s_u)).
  /// Paper: Placeto 2019, section 2.1  [PLA-R]
  kIntermediate,
  /// An episode is a sequence; step t is credited with γ^(T-t) ρ(s_T).   Paper: as above.
  kFinal,
};
constexpr auto enum_words(Returns) {
  return EnumWords{"returns", std::array{EnumWord{Returns::kPlacement, "placement"},
                                         EnumWord{Returns::kIntermediate, "intermediate"},
                                         EnumWord{Returns::kFinal, "final"}}};
}

struct BaselineOptions {
  BaselineKind kind = BaselineKind::kMovingAverage;
  Returns returns = Returns::kPlacement;
  double discount = 1;  ///< γ
  double decay = 0.9;   ///< Decay of the moving average per placement.
  double failing_signal = 10;
  /// True: start at the failing signal. False: start at the mean cost of the first episode.
  /// Paper: ColocRL 2017, section 3.1  [COL-FAIL]
  bool start_at_failing_signal = false;
  /// The first cost of an episode of steps is that of its start, which no step is credited with.
  bool start_measured = false;
  std::size_t window = 20;  ///< Number of past episodes that kStepMean averages.
  /// Divide by a running standard deviation, so that one learning rate fits all costs.
  bool normalise = false;

  void list(Settings& settings) {
    settings.add("baseline", kind,
                 "Expected cost that advantages are measured from: a moving average, the mean of all trials, "
                 "the mean at the "
                 "same step (Placeto), or the cost of the policy's most likely placement.");
    settings.add("returns", returns,
                 "Cost that a choice is credited with: its placement's, or for Placeto's steps the "
                 "intermediate rewards "
                 "or the final one.");
    settings.add("discount", discount, "Factor on each later reward of an episode of steps.");
    settings.add("baseline_decay", decay,
                 "Decay of the moving-average baseline per placement. Authors' code: 0.9.");
    settings.add(
        "baseline_from_failing_signal", start_at_failing_signal,
        "Starts the moving-average baseline at failing_signal instead of the mean of the first episode.");
    settings.add("baseline_window", window, at_least(1),
                 "Number of past episodes that the step-mean baseline averages.");
    settings.add("normalise", normalise,
                 "Divides advantages by a running standard deviation of the costs. Paper: false.");
  }
};

/// A baseline; the caller keeps one per graph, and optionally per controller or host. A value. Thread: one.
class Baseline {
 public:
  explicit Baseline(const BaselineOptions& options) : options_{options} {}
  /// Returns the advantages of an episode with respect to the current baseline, then updates the baseline.
  /// `cost` [placements] in order. Where `counted` is 0 the advantage is 0 and nothing is learned. Returns
  /// [placements], without the last one for kSelfCritic, and without the first one if the start is measured.
  std::vector<double> advantages(std::span<const double> cost, std::span<const std::uint8_t> counted);
  /// True if an episode has one advantage less than costs.
  static bool has_one_less(const BaselineOptions& options) {
    return options.kind == BaselineKind::kSelfCritic || options.start_measured;
  }
  /// Baseline of the last episode; for kStepMean the one of the first step.
  double used() const { return used_; }

 private:
  std::vector<double> expected(std::span<const double> answers);
  void learn(std::span<const double> answers, std::span<const std::uint8_t> counted);

  BaselineOptions options_;
  double value_ = 0, used_ = 0, square_ = 0;
  std::uint64_t trials_ = 0;
  bool started_ = false;
  std::deque<std::vector<double>> last_;  ///< Credited costs of the last episodes, for kStepMean.
  std::vector<double> sum_;               ///< Sum of last_ per step.
};

/// Returns the cost that each step of a sequence is credited with; see Returns. `before` is the cost before
/// the first step; if it is not measured it counts as 0, which is harmless only if all episodes of a graph
/// have one start.
std::vector<double> answers_of(std::span<const double> cost, Returns returns, double discount,
                               double before = 0);

}  // namespace emplace::policy
