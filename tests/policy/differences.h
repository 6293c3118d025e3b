#pragma once
// Derivatives by central differences, which gradients are held against.

namespace emplace::policy {

/// [loss / parameter] How `loss()` changes with `value`, which is put back.
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
