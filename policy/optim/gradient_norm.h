#pragma once
/// The global norm of a gradient, and its cut.

#include <cmath>

#include "policy/parameters.h"

namespace emplace::policy {

struct GradientNorm {
  float norm = 0;   ///< The norm before the cut.
  float scale = 1;  ///< Factor that cuts the gradient to the norm `clip_norm`.
};
/// Cuts only if `clip_norm` > 0.
inline GradientNorm gradient_norm(ParameterStore& store, float clip_norm) {
  double sum = 0;
  for (const float g : store.gradients()) sum += static_cast<double>(g) * g;
  const auto norm = static_cast<float>(std::sqrt(sum));
  return {norm, clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0f};
}

}  // namespace emplace::policy
