#pragma once
/// Cost of a measured placement for the learner; lower is better. The papers' rewards are the negatives.

#include <cstdint>
#include <limits>
#include <span>

#include "base/settings.h"

namespace emplace::policy {

enum class Transform : std::uint8_t { kIdentity, kSqrt, kLog };
constexpr auto enum_words(Transform) {
  return EnumWords{"transform",
                   std::array{EnumWord{Transform::kIdentity, "id"}, EnumWord{Transform::kSqrt, "sqrt"},
                              EnumWord{Transform::kLog, "log"}}};
}

/// What a placement that does not fit exceeds the memory of the devices by.
enum class Excess : std::uint8_t {
  kSum,  ///< The sum over the devices.
  kMax,  ///< The excess of the device with the largest.   Paper: Placeto 2019, section 2.1  [PLA-MEM]
};
constexpr auto enum_words(Excess) {
  return EnumWords{"excess", std::array{EnumWord{Excess::kSum, "sum"}, EnumWord{Excess::kMax, "max"}}};
}

/// Disables the floor: it is lower than every cost.
inline constexpr double kNoFloor = -std::numeric_limits<double>::infinity();

struct RewardOptions {
  /// Transform of the step time [s].   Paper: ColocRL 2017, section 3.1, Eq. 1 [COL-1]; Hierarchical 2018,
  /// section 3 [HIE-R]
  Transform transform = Transform::kSqrt;
  /// Cost of a placement that does not fit. It gives no signal by itself when hardly any random placement
  /// fits.   Paper: ColocRL 2017, section 3.1 [COL-FAIL]; Hierarchical 2018, section 3 [HIE-R]
  double failing_signal = 10;
  /// True: a placement that does not fit costs max(transform(step time), floor) + base + per_gb · (10^9 bytes
  /// above the caps), at most the failing signal. This grades how far a placement is from fitting; it needs a
  /// simulator that reports the step time of placements that do not fit. With base 0 and no floor it is
  /// Placeto's penalty.   Paper: Placeto 2019, section 2.1  [PLA-MEM]
  bool graded_memory = false;
  double penalty_base = 0.2;
  double penalty_per_gb = 0.5;
  /// Minimum cost of a placement that does not fit, before the penalty (policy::MemoryFloor); needs
  /// graded_memory.
  double floor = kNoFloor;
  Excess excess = Excess::kSum;  ///< Bytes that penalty_per_gb counts.

  void list(Settings& settings) {
    settings.add("transform", transform, "Transform of the step time [s] into a cost. Paper: sqrt.");
    settings.add(
        "failing_signal", failing_signal,
        "Cost of a placement that does not fit or does not run; also the maximum cost with graded_memory. "
        "Paper: 10.");
    settings.add("graded_memory", graded_memory,
                 "Grades placements that do not fit by their bytes above the memory caps. Paper: false.");
    settings.add("penalty_base", penalty_base,
                 "Cost that graded_memory adds to every placement that does not fit.");
    settings.add("penalty_per_gb", penalty_per_gb,
                 "Cost that graded_memory adds per 10^9 bytes above the memory caps.");
    settings.add(
        "memory_excess", excess,
        "Bytes above the caps that graded_memory counts: the sum over the devices, or the largest of one "
        "device (max). Paper of Placeto: max.");
  }
};

/// Cost of a placement with unlimited memory. @pre step_time_s > 0.
double transformed(Transform transform, double step_time_s);

/// Returns the bytes above the caps that an excess counts. `over`: their sum over the devices. `peak_bytes`
/// and `memory_bytes` [devices]; a real executor that failed knows no peaks, and then the sum counts.
std::int64_t counted_excess(Excess excess, std::int64_t over, std::span<const std::int64_t> peak_bytes,
                            std::span<const std::int64_t> memory_bytes);

/// R of one placement. step_time_s > 0, or 0 if the placement did not run, whatever the reason: then the cost
/// is the failing signal. Pure; any thread.
double placement_cost(const RewardOptions& options, bool valid, double step_time_s, std::int64_t bytes_over);

}  // namespace emplace::policy
