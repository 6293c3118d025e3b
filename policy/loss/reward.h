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

/// What a placement that does not fit costs above its step time.
enum class MemoryPenalty : std::uint8_t {
  kPerGb,  ///< base + per_gb · (10^9 bytes above the caps). With base 0 and no floor it is Placeto's.
           ///< [PLA-MEM]
  kShare,  ///< memory_penalty(), as in searches: by the share of the smallest device's memory.
};
constexpr auto enum_words(MemoryPenalty) {
  return EnumWords{"memory penalty", std::array{EnumWord{MemoryPenalty::kPerGb, "per-gb"},
                                                EnumWord{MemoryPenalty::kShare, "share"}}};
}

struct RewardOptions {
  /// Transform of the step time [s].   Paper: ColocRL 2017, section 3.1, Eq. 1 [COL-1]; Hierarchical 2018,
  /// section 3 [HIE-R]
  Transform transform = Transform::kSqrt;
  /// Cost of a placement that does not fit. It gives no signal by itself when hardly any random placement
  /// fits.   Paper: ColocRL 2017, section 3.1 [COL-FAIL]; Hierarchical 2018, section 3 [HIE-R]
  double failing_signal = 10;
  /// True: a placement that does not fit costs max(transform(step time), floor) + penalty, at most the
  /// failing signal. This grades how far a placement is from fitting; it needs a simulator that reports the
  /// step time of placements that do not fit.   Paper: Placeto 2019, section 2.1  [PLA-MEM]
  bool graded_memory = false;
  double penalty_base = 0.2;
  double penalty_per_gb = 0.5;
  Excess excess = Excess::kSum;  ///< Bytes above the caps that count.
  MemoryPenalty penalty = MemoryPenalty::kPerGb;

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
    settings.add(
        "memory_penalty", penalty,
        "Cost that graded_memory adds: penalty_base and penalty_per_gb (per-gb), or that of searches "
        "(share), "
        "0.05 and twice the bytes above the caps as a share of the smallest device's memory. Paper: per-gb.");
  }
};

/// Disables the floor: it is lower than every cost.
inline constexpr double kNoFloor = -std::numeric_limits<double>::infinity();

/// What the cost of a placement that does not fit depends on beside the options and its measurement.
struct MemoryPrice {
  double more_per_gb = 0;            ///< Added to RewardOptions::penalty_per_gb.
  std::int64_t smallest_memory = 1;  ///< smallest_memory() of the machine [B].
  double factor = 1;                 ///< Factor of the penalty (AdaptivePenalty).
  double floor = kNoFloor;           ///< Minimum cost before the penalty (MemoryFloor).
};

/// Lagrange multiplier λ of the constraint that placements fit, by dual ascent on its logarithm: after each
/// placement  log λ += kRate · (target − fits),  λ clamped to [1/kMax, kMax]. At equilibrium the share of
/// placements that fit equals the target. Too small a penalty leaves the policy above the caps; too large a
/// penalty drives it away from all placements near them. A value; a function of the learned outcomes. Thread:
/// one.   [EMP-LAMBDA]
class AdaptivePenalty {
 public:
  static constexpr double kRate = 0.01, kMax = 256;

  /// `target`: share of placements that should fit, in [0, 1); 0 keeps λ at 1.
  explicit AdaptivePenalty(double target) : target_{target} {}
  double factor() const { return factor_; }
  /// Updates λ after a placement; `fits` is its outcome.
  void learn(bool fits);

 private:
  double target_;
  double factor_ = 1;
};

/// The lowest cost of all placements that fitted; until one fits, the highest cost of those that did not. As
/// a floor of costs, no placement above the caps is rated better than the best one that fits: only its
/// distance from fitting counts, not its speed. Inspired by Deb 2000 ("An efficient constraint handling
/// method for genetic algorithms", Eq. 4), which uses the worst feasible one. A value; independent of the
/// order of learn() calls. Thread: one.   [EMP-FLOOR]
class MemoryFloor {
 public:
  /// Updates the floor with a placement that has a step time. `cost` is transform(step time).
  void learn(bool fits, double cost);
  double cost() const { return least_that_fits_ < -kNoFloor ? least_that_fits_ : most_above_; }

 private:
  double least_that_fits_ = -kNoFloor, most_above_ = kNoFloor;
};

/// Cost of a placement with unlimited memory. @pre step_time_s > 0.
double transformed(Transform transform, double step_time_s);

/// Returns the bytes above the caps that an excess counts. `over`: their sum over the devices. `peak_bytes`
/// and `memory_bytes` [devices]; a real executor that failed knows no peaks, and then the sum counts.
std::int64_t counted_excess(Excess excess, std::int64_t over, std::span<const std::int64_t> peak_bytes,
                            std::span<const std::int64_t> memory_bytes);

/// R of one placement. step_time_s > 0, or 0 if the placement did not run, whatever the reason: then the cost
/// is the failing signal. Pure; any thread.
double placement_cost(const RewardOptions& options, bool valid, double step_time_s, std::int64_t bytes_over,
                      const MemoryPrice& price = {});

}  // namespace emplace::policy
