#pragma once
/// Condenses any number of measurements into a curve that can be drawn.

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
  std::uint64_t measurements = 0;      ///< Measurements so far, including this stretch.
  std::uint64_t count = 0, valid = 0;  ///< Measurements, and valid ones, in this stretch.
  double wall_s = 0;                   ///< Wall time at its end [s].
  /// Percentiles of the valid ones; 0: none is valid.
  std::array<double, kCurvePercentiles.size()> step_time_s{};
  double best_s = 0;  ///< Best step time so far [s]; 0: no valid measurement.
};

struct LearningCurve {
  std::string label;
  std::vector<CurvePoint> points;
};

/// Splits the samples into at most `max_points` stretches of equal length (the last may be shorter); of at
/// least ten measurements if there are enough, so that percentiles are meaningful. A percentile is the
/// smallest value that this share of the valid samples does not exceed. @pre max_points >= 1. O(n log n).
std::vector<CurvePoint> learning_curve(std::span<const CurveSample> samples, std::size_t max_points);

}  // namespace emplace::record
