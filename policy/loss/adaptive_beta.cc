#include "policy/loss/adaptive_beta.h"

#include <algorithm>

namespace emplace::policy {

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
