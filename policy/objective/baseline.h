#pragma once
/// What placements usually cost, so that a learner weighs surprise, not luck.
///   advantage = cost - baseline: below 0 is better than usual.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/settings.h"

namespace emplace::policy {

enum class BaselineKind : std::uint8_t {
  kMovingAverage,  ///< B ← decay B + (1 - decay) R               Paper: ColocRL 2017, section 3.1  [COL-B]
  kMean,           ///< The mean of all earlier trials.           Paper: Spotlight 2018, section 3.3  [SPO-B]
  kStepMean,       ///< The mean at the same step over the last episodes.   Paper: Placeto 2019, section 3.2
                   ///< [PLA-B]
  kSelfCritic,  ///< What the policy's likeliest placement cost: the episode's last one.   Rennie 2017, Eq. 7
};
constexpr auto enum_words(BaselineKind) {
  return EnumWords{"baseline", std::array{EnumWord{BaselineKind::kMovingAverage, "moving-average"},
                                          EnumWord{BaselineKind::kMean, "mean"},
                                          EnumWord{BaselineKind::kStepMean, "step-mean"},
                                          EnumWord{BaselineKind::kSelfCritic, "self-critic"}}};
}

/// What a choice answers for.
enum class Returns : std::uint8_t {
  kPlacement,     ///< An episode is a set of placements, each answers for itself.
  kIntermediate,  ///< An episode is a sequence: step t answers for Σ_{u≥t} γ^(u-t) (ρ(s_{u+1}) - ρ(s_u)),
  kFinal,         ///< or for γ^(T-t) ρ(s_T).                     Paper: Placeto 2019, section 3.1  [PLA-R]
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
  double decay = 0.9;   ///< Of the moving average, per placement.
  double failing_signal = 10;
  bool start_at_failing_signal = false;  ///< As ColocRL does; else at the mean cost of the first episode.
  std::size_t window = 20;               ///< Episodes that kStepMean looks back.
  bool normalise = false;  ///< Divide by a running deviation, so that one learning rate fits all costs.

  void list(Settings& settings) {
    settings.add("baseline", kind,
                 "What costs are held against: a moving average, the mean of all trials, the mean at the "
                 "same step (Placeto), or the policy's likeliest placement.");
    settings.add("returns", returns,
                 "What a choice answers for: its placement, or of Placeto's steps the intermediate rewards "
                 "or the final one.");
    settings.add("discount", discount, "Factor on each later reward of an episode of steps.");
    settings.add("baseline_decay", decay, "Decay of the moving average per placement. Authors' code: 0.9.");
    settings.add("baseline_from_failing_signal", start_at_failing_signal,
                 "Starts the moving average at failing_signal instead of the first episode's mean.");
    settings.add("baseline_window", window, at_least(1), "Episodes that step-mean looks back.");
    settings.add("normalise", normalise,
                 "Divides advantages by a running deviation of the costs. Paper: false.");
  }
};

/// One baseline, of one graph and whatever it is kept per. A value. Thread: one.
class Baseline {
 public:
  explicit Baseline(const BaselineOptions& options) : options_{options} {}
  /// The advantages of an episode, by the baseline as it was before; then learns from it. `cost` [placements]
  /// in order; where `counted` is 0 the advantage is 0 and nothing is learned. Returns [placements], without
  /// the last one for kSelfCritic.
  std::vector<double> advantages(std::span<const double> cost, std::span<const std::uint8_t> counted);
  /// What the last episode was held against; for kStepMean at its first step.
  double used() const { return used_; }

 private:
  std::vector<double> expected(std::span<const double> answers);
  void learn(std::span<const double> answers, std::span<const std::uint8_t> counted);

  BaselineOptions options_;
  double value_ = 0, used_ = 0, square_ = 0;
  std::uint64_t trials_ = 0;
  bool started_ = false;
  std::deque<std::vector<double>> last_;  ///< kStepMean: answers of the last episodes.
  std::vector<double> sum_;               ///< Of those, by step.
};

/// What each step of a sequence answers for; see Returns. The cost before the first step, the same for all
/// episodes of a graph and a start, counts as 0.
std::vector<double> answers_of(std::span<const double> cost, Returns returns, double discount);

}  // namespace emplace::policy
