#pragma once
// Derivatives by central differences, for comparison with gradients.

namespace emplace::policy {

/// Derivative of `loss()` with respect to `value`, which is restored.
template <class Loss>
double central_difference(Loss&& loss, float& value, float step) {
  const float kept = value;
  value = kept + step;
  const double above = loss();
  value = kept - step;
  const double below = loss();
  value = kept;
  return (above - below) / (2 * step);
}

}  // namespace emplace::policy
