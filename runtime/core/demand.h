#pragma once
/// How many executors would be busy now; engines start and stop executors by it.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace emplace::runtime {

struct DemandOptions {
  std::uint32_t max_executors = 0;         ///< Upper bound of the demand; 0: none.
  Nanos memory = std::chrono::seconds{5};  ///< Time constant of the averages.
};

/// Demand for executors, from the work that waits, its arrival rate and the time that one executor takes:
///   busy = (waiting + λ · 1 s) · s / 1 s,   bounded by the leases that the open work can be divided into
///   λ: placements proposed per second, s: seconds per placement of one executor, both averaged over `memory`
/// wanted() rises at once and falls with the time constant `memory`, so that executors are not stopped
/// between two batches. While s is unknown one executor is wanted for any open work. Pure; one thread.
class Demand {
 public:
  explicit Demand(DemandOptions options) : options_{options} {}

  /// Records `count` proposed placements.
  void proposed(std::uint32_t count, Nanos now) {
    per_s_ = rate(now) + count / seconds(options_.memory);
    rate_at_ = now;
  }
  /// Records that an executor took `placement_s` for each of `count` placements.
  void measured(double placement_s, std::uint32_t count) {
    constexpr double kPlacements = 50;  // Placements after which an old average has a weight of 1/e.
    const double weight = placement_s_ == 0 ? 1 : 1 - std::exp(-static_cast<double>(count) / kPlacements);
    placement_s_ += weight * (placement_s - placement_s_);
  }
  /// Executors wanted. `waiting`: placements that no executor holds; `leases`: leases that the open
  /// placements, waiting or held, can be divided into. Call it regularly.
  std::uint32_t wanted(std::uint64_t waiting, std::uint64_t leases, Nanos now) {
    const double busy = placement_s_ == 0 ? 1 : (static_cast<double>(waiting) + rate(now)) * placement_s_;
    const double raw = std::min(busy, static_cast<double>(leases));
    const double kept = wanted_ * decay(now - wanted_at_);
    wanted_ = std::max(raw, kept);
    wanted_at_ = now;
    // One executor while there is work; a demand of a few per cent is what an average leaves behind.
    constexpr double kLeast = 0.05;
    const double whole =
        leases > 0 ? std::max(1.0, std::ceil(wanted_ - kLeast)) : std::ceil(wanted_ - kLeast);
    const double most = options_.max_executors > 0 ? options_.max_executors : kMost;
    return static_cast<std::uint32_t>(std::clamp(whole, 0.0, most));
  }

 private:
  static constexpr double kMost = 1e6;
  static double seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }
  double decay(Nanos since) const { return std::exp(-seconds(since) / seconds(options_.memory)); }
  double rate(Nanos now) const { return per_s_ * decay(now - rate_at_); }

  const DemandOptions options_;
  double per_s_ = 0, placement_s_ = 0, wanted_ = 0;
  Nanos rate_at_{0}, wanted_at_{0};
};

}  // namespace emplace::runtime
