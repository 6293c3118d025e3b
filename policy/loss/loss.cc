#include "policy/loss/loss.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"

namespace emplace::policy {

namespace {

struct Term {
  float value = 0;     // Contribution to the loss.
  float gradient = 0;  // Derivative of the loss with respect to log π of the chosen device.
};

Term ratio_term(float log_ratio, float advantage) {
  const float ratio = std::exp(log_ratio);
  return {ratio * advantage, ratio * advantage};
}

Term clipped_term(float log_ratio, float advantage, float clip) {
  const float ratio = std::exp(log_ratio), clipped = std::clamp(ratio, 1 - clip, 1 + clip);
  if (clipped * advantage > ratio * advantage) return {clipped * advantage, 0};
  return {ratio * advantage, ratio * advantage};
}

}  // namespace

LossParts add_loss_gradient(const LossOptions& options, float beta, const Trajectories& seen, float scale,
                            Matrix& seed) {
  const Matrix& log_p = *seen.log_p;
  const std::size_t choices = seen.count * seen.stages;
  EMPLACE_CHECK(static_cast<std::size_t>(log_p.cols()) == choices && seen.chosen.size() == choices &&
                    seen.advantage.size() == choices,
                "one column, device and advantage per choice expected");
  const Eigen::Index devices = log_p.rows();
  EMPLACE_CHECK(
      !options.needs_behaviour() || seen.behaviour.size() == choices * static_cast<std::size_t>(devices),
      "the behaviour policy's distribution for every choice");
  const Eigen::Map<const Matrix> behaviour{seen.behaviour.data(), devices,
                                           seen.behaviour.empty() ? 0 : log_p.cols()};
  const bool summed = options.kind == LossKind::kReinforce;
  // REINFORCE sums over the choices of a trajectory; the surrogate losses take the mean.
  const float each = 1.0f / static_cast<float>(summed ? seen.count : choices);
  LossParts parts;
  for (std::size_t trajectory = 0; trajectory < seen.count; ++trajectory) {
    const auto log_ratio = [&](Eigen::Index n) {
      const std::uint8_t device = seen.chosen[static_cast<std::size_t>(n)];
      return log_p(device, n) - behaviour(device, n);
    };
    const auto first = static_cast<Eigen::Index>(trajectory * seen.stages);
    float weight = 1;
    if (summed && options.max_weight > 0) {
      double total = 0;
      for (Eigen::Index n = first; n < first + static_cast<Eigen::Index>(seen.stages); ++n)
        total += log_ratio(n);
      weight = static_cast<float>(std::min(std::exp(total), static_cast<double>(options.max_weight)));
    }
    for (Eigen::Index n = first; n < first + static_cast<Eigen::Index>(seen.stages); ++n) {
      const std::uint8_t device = seen.chosen[static_cast<std::size_t>(n)];
      const float advantage = seen.advantage[static_cast<std::size_t>(n)];
      const Term term = summed ? Term{weight * advantage * log_p(device, n), weight * advantage}
                        : options.kind == LossKind::kKlPenalised
                            ? ratio_term(log_ratio(n), advantage)
                            : clipped_term(log_ratio(n), advantage, options.clip);
      seed(device, n) += scale * each * term.gradient;
      float entropy = 0, divergence = 0;
      for (Eigen::Index d = 0; d < devices; ++d) {
        const float p = std::exp(log_p(d, n));
        if (p > 0) entropy -= p * log_p(d, n);
        if (p > 0 && options.entropy != 0)
          seed(d, n) += scale * each * options.entropy * p * (log_p(d, n) + 1);
        if (seen.behaviour.empty()) continue;
        const float q = std::exp(behaviour(d, n));
        if (q <= 0) continue;
        divergence += q * (behaviour(d, n) - log_p(d, n));
        if (options.kind == LossKind::kKlPenalised) seed(d, n) -= scale * each * beta * q;
      }
      parts.log_probability += log_p(device, n) / static_cast<double>(seen.count);
      parts.entropy += entropy / static_cast<double>(choices);
      parts.divergence += divergence / static_cast<double>(choices);
      parts.loss += each * (term.value - options.entropy * entropy);
      if (options.kind == LossKind::kKlPenalised) parts.loss += each * beta * divergence;
    }
  }
  return parts;
}

void through_log_softmax(const Matrix& log_p, Matrix& gradient) {
  for (Eigen::Index n = 0; n < gradient.cols(); ++n) {
    const float total = gradient.col(n).sum();
    for (Eigen::Index d = 0; d < gradient.rows(); ++d) gradient(d, n) -= std::exp(log_p(d, n)) * total;
  }
}

float adapted_beta(const LossOptions& options, float beta, float kl) {
  if (options.kl_target <= 0) return beta;
  if (kl > 1.5f * options.kl_target) return std::min(2 * beta, 1e6f);
  if (kl < options.kl_target / 1.5f) return std::max(beta / 2, 1e-6f);
  return beta;
}

AdaptiveBeta::AdaptiveBeta(ParameterStore& store, const LossOptions& options)
    : options_{options}, kept_{true}, id_{store.add("objective.beta", 1, 1, Init::kZero, 0, 0.0f)} {
  store.value(id_)(0, 0) = options.beta;
}

void AdaptiveBeta::follow(ParameterStore& store, double divergence) const {
  if (!kept_) return;
  float& beta = store.value(id_)(0, 0);
  beta = adapted_beta(options_, beta, static_cast<float>(divergence));
}

}  // namespace emplace::policy
