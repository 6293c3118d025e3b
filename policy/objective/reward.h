#pragma once
/// What a measured placement costs the learner: lower is better. The papers' rewards are the negatives.

#include <cstdint>
#include <limits>
#include <string_view>

#include "base/result.h"

namespace emplace::policy {

enum class Transform : std::uint8_t { kIdentity, kSqrt, kLog };
std::string_view transform_name(Transform transform);  ///< "id", "sqrt", "log"
Result<Transform> parse_transform(std::string_view name);

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
};

/// What a placement would cost if memory were no matter. @pre step_time_s > 0.
double transformed(Transform transform, double step_time_s);

/// R of one placement. step_time_s > 0; 0 if it is not valid and did not run at all, whatever the reason:
/// that costs the failing signal. Pure; any thread.
double placement_cost(const RewardOptions& options, bool valid, double step_time_s, std::int64_t bytes_over);

}  // namespace emplace::policy
