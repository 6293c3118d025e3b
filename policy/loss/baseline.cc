#include "policy/loss/baseline.h"

#include <cmath>
#include <numeric>
#include <string>

namespace emplace::policy {

std::vector<double> answers_of(std::span<const double> cost, Returns returns, double discount,
                               double before) {
  std::vector<double> answers(cost.begin(), cost.end());
  if (returns == Returns::kPlacement) return answers;
  double ahead = 0;
  for (std::size_t t = cost.size(); t-- > 0;) {
    if (returns == Returns::kFinal) {
      ahead = t + 1 == cost.size() ? cost[t] : discount * ahead;
    } else {
      ahead = cost[t] - (t == 0 ? before : cost[t - 1]) + discount * ahead;
    }
    answers[t] = ahead;
  }
  return answers;
}

std::vector<double> Baseline::expected(std::span<const double> answers) {
  if (options_.kind == BaselineKind::kStepMean) {
    if (last_.empty() || sum_.size() != answers.size()) {
      last_.clear();
      sum_.assign(answers.size(), 0.0);
      // Without history, use the costs themselves: all advantages are 0.
      return {answers.begin(), answers.end()};
    }
    std::vector<double> mean;
    for (const double total : sum_) mean.push_back(total / static_cast<double>(last_.size()));
    return mean;
  }
  if (!started_) {
    value_ = options_.start_at_failing_signal
                 ? options_.failing_signal
                 : std::accumulate(answers.begin(), answers.end(), 0.0) / static_cast<double>(answers.size());
  }
  return std::vector<double>(answers.size(), value_);
}

void Baseline::learn(std::span<const double> answers, std::span<const std::uint8_t> counted) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (counted[i] == 0) continue;
    ++trials_;
    if (options_.kind == BaselineKind::kMovingAverage) {
      const double surprise = answers[i] - value_;
      square_ = std::lerp(surprise * surprise, square_, 0.98);
      value_ = std::lerp(answers[i], value_, options_.decay);
    } else if (options_.kind == BaselineKind::kMean) {
      // The first trial replaces the initial value.
      value_ += (answers[i] - value_) / static_cast<double>(trials_);
    }
  }
  if (options_.kind != BaselineKind::kStepMean) return;
  last_.emplace_back(answers.begin(), answers.end());
  for (std::size_t i = 0; i < answers.size(); ++i) sum_[i] += answers[i];
  if (last_.size() <= options_.window) return;
  for (std::size_t i = 0; i < answers.size(); ++i) sum_[i] -= last_.front()[i];
  last_.pop_front();
}

std::vector<double> Baseline::advantages(std::span<const double> cost,
                                         std::span<const std::uint8_t> counted) {
  if (options_.kind == BaselineKind::kSelfCritic) {
    value_ = cost.back();
    cost = cost.first(cost.size() - 1);
  }
  double before = 0;
  if (options_.start_measured && !cost.empty()) {
    before = cost.front();
    cost = cost.subspan(1);
    counted = counted.subspan(1);
  }
  const std::vector<double> answers = answers_of(cost, options_.returns, options_.discount, before);
  if (answers.empty()) return {};  // A self-critical episode without samples.
  std::vector<double> surprise = options_.kind == BaselineKind::kSelfCritic
                                     ? std::vector<double>(answers.size(), value_)
                                     : expected(answers);
  used_ = surprise.front();
  double mean_square = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    surprise[i] = answers[i] - surprise[i];
    mean_square += surprise[i] * surprise[i] / static_cast<double>(answers.size());
  }
  // The first surprises set the scale; later ones update it, per placement with a moving average, otherwise
  // per episode. The 1e-4 keeps a converged policy from amplifying tiny cost differences.
  if (!started_ || square_ == 0) {
    square_ = mean_square;
  } else if (options_.kind != BaselineKind::kMovingAverage) {
    square_ = std::lerp(mean_square, square_, 0.9);
  }
  started_ = true;
  const double scale = options_.normalise ? 1.0 / std::sqrt(square_ + 1e-4) : 1.0;
  learn(answers, counted);
  for (std::size_t i = 0; i < surprise.size(); ++i) surprise[i] = counted[i] != 0 ? surprise[i] * scale : 0.0;
  return surprise;
}

}  // namespace emplace::policy
