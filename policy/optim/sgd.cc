#include "policy/optim/sgd.h"

#include <cmath>

#include "policy/optim/gradient_norm.h"

namespace emplace::policy {

float sgd_step(ParameterStore& store, float learning_rate, float clip_norm) {
  const auto gradient = store.gradients();
  const auto value = store.values();
  const auto [norm, scale] = gradient_norm(store, clip_norm);
  if (!std::isfinite(norm)) return norm;
  std::size_t i = 0;
  for (const auto& [end, learning_scale] : store.learning_scales()) {
    const float rate = learning_rate * learning_scale * scale;
    for (; i < end; ++i) value[i] -= rate * gradient[i];
  }
  return norm;
}

}  // namespace emplace::policy
