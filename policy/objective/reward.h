#pragma once
/// What a measured placement costs the learner: lower is better. The papers' rewards are the negatives.

#include <cstdint>
#include <limits>

#include "base/settings.h"

namespace emplace::policy {

enum class Transform : std::uint8_t { kIdentity, kSqrt, kLog };
constexpr auto enum_words(Transform) {
  return EnumWords{"transform",
                   std::array{EnumWord{Transform::kIdentity, "id"}, EnumWord{Transform::kSqrt, "sqrt"},
                              EnumWord{Transform::kLog, "log"}}};
}

/// Below every cost.
inline constexpr double kNoFloor = -std::numeric_limits<double>::infinity();

struct RewardOptions {
  Transform transform =
      Transform::kSqrt;  ///< Of the step time in seconds.   Paper: Hierarchical 2018, section 3.1
  /// Cost of a placement that does not fit. Alone it teaches nothing where hardly any random placement fits.
  double failing_signal = 10;
  /// Instead of the failing signal: max(transform(step time), floor) + base + per_gb · (10^9 bytes above the
  /// caps), never more than the failing signal. It grades how far a placement is from fitting, where the
  /// simulator says how long it would have taken.
  bool graded_memory = false;
  double penalty_base = 0.2;
  double penalty_per_gb = 0.5;
  /// Graded: what does not fit costs at least this, before the penalty (policy::MemoryFloor).
  double floor = kNoFloor;

  void list(Settings& settings) {
    settings.add("transform", transform, "What makes a cost of a step time in seconds. Paper: sqrt.");
    settings.add(
        "failing_signal", failing_signal,
        "Cost of a placement that does not fit or does not run; also the most that a graded one costs. "
        "Paper: 10.");
    settings.add("graded_memory", graded_memory,
                 "Grades a placement that does not fit by its bytes above the caps. Paper: false.");
    settings.add("penalty_base", penalty_base,
                 "Cost that graded_memory adds to every placement that does not fit.");
    settings.add("penalty_per_gb", penalty_per_gb,
                 "Cost that graded_memory adds per 10^9 bytes above the caps.");
  }
};

/// What a placement would cost if memory were no matter. @pre step_time_s > 0.
double transformed(Transform transform, double step_time_s);

/// R of one placement. step_time_s > 0; 0 if it is not valid and did not run at all, whatever the reason:
/// that costs the failing signal. Pure; any thread.
double placement_cost(const RewardOptions& options, bool valid, double step_time_s, std::int64_t bytes_over);

}  // namespace emplace::policy
