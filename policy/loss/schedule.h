#pragma once
/// Weights that change along a run.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace emplace::policy {

/// A value that changes linearly from `first` to `last` over `over` updates; 0 updates: constant.
inline float linear_schedule(float first, float last, std::uint64_t over, std::uint64_t update) {
  if (over == 0) return first;
  const double done = std::min(1.0, static_cast<double>(update) / static_cast<double>(over));
  return static_cast<float>(std::lerp(static_cast<double>(first), static_cast<double>(last), done));
}

}  // namespace emplace::policy
