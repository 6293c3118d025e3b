#pragma once
/// A run's measurements, however many, as a curve that can be drawn.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/run_results.h"

namespace emplace::record {

inline constexpr std::array<double, 5> kCurvePercentiles{5, 25, 50, 75, 95};

/// A stretch of consecutive measurements.
struct CurvePoint {
  std::uint64_t measurements = 0;      ///< So far, this stretch included.
  std::uint64_t count = 0, valid = 0;  ///< In this stretch.
  double wall_s = 0;                   ///< At its end.
  std::array<double, kCurvePercentiles.size()>
      step_time_s{};  ///< Percentiles of the valid ones; 0: there are none.
  double best_s = 0;  ///< The least of all so far; 0: none was valid.
};

struct LearningCurve {
  std::string label;
  std::vector<CurvePoint> points;
};

/// Stretches of one length (the last may be shorter), at most `max_points` of them, and, where there are
/// enough measurements, of ten at least, so that percentiles mean something. A percentile is the smallest
/// value that so many of the valid ones do not exceed. @pre max_points >= 1. O(n log n).
std::vector<CurvePoint> learning_curve(std::span<const CurveSample> samples, std::size_t max_points);

}  // namespace emplace::record
