#pragma once
/// Advantages of placements that are each other's baseline.

#include <cmath>
#include <span>
#include <vector>

namespace emplace::policy {

/// Standardises [placements] values: subtracts the mean and divides by the standard deviation. A single value
/// is unchanged; equal values become 0.
inline std::vector<float> standardised(std::span<const float> advantages) {
  std::vector<float> held(advantages.begin(), advantages.end());
  if (held.size() < 2) return held;
  double sum = 0, squares = 0;
  for (const float a : held) sum += static_cast<double>(a);
  const double mean = sum / static_cast<double>(held.size());
  for (const float a : held) squares += (static_cast<double>(a) - mean) * (static_cast<double>(a) - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(held.size()));
  for (float& a : held)
    a = deviation > 1e-9 ? static_cast<float>((static_cast<double>(a) - mean) / deviation) : 0.0f;
  return held;
}

}  // namespace emplace::policy
