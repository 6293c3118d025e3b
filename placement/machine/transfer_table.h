#pragma once
/// The time of a transfer between two devices: latency + bytes / bandwidth of the link between them. This is
/// the only place where a link becomes a time; what waits for a busy engine or a shared link is up to the
/// caller.
///
/// A time is given in two ways, and every caller states which one it means by the name that it calls:
///   whole   ns(): whole nanoseconds, to the nearest, halves up. Steps are simulated in it (StepTables),
///   lists
///           are scheduled in it, bounds are proven about it (DeviceKinds), shaped links are emulated in it.
///   exact   line(), time(), latency_s(), …: no rounding, for sums, means and costs in other units.
/// floor_ns() is the exception: the policy `scheduler` has always computed its features with times that are
/// rounded down, and stored runs and parameters must stay equal to the bit.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/machine/device.h"

namespace emplace {

/// The time of a transfer as a function of its bytes: latency + bytes · time per byte, not rounded.
struct TransferLine {
  double latency_ns = 0;
  double ns_per_byte = 0;
  bool operator==(const TransferLine&) const = default;
};

/// The two parts of the time of a transfer, not rounded.
struct TransferTime {
  double latency_s = 0;
  double bytes_s = 0;
  double seconds() const { return latency_s + bytes_s; }
};

/// What whole_ns() adds before it truncates [ns]. Means of the times of list schedulers contain it.
inline constexpr double kRoundingNs = 0.5;
/// Longer than any step [ns]; the sum of two does not overflow.
inline constexpr std::int64_t kNeverNs = std::int64_t{1} << 61;

/// The one rounding of the time of a transfer: whole nanoseconds, to the nearest, halves up; kNeverNs if it
/// is longer or the line is not finite. Grows with each value of the line, so that a line below others gives
/// a bound below theirs. @pre bytes >= 0.
inline std::int64_t whole_ns(const TransferLine& line, std::int64_t bytes) {
  // The half is added to the latency first: all simulated times so far have the bits of this order.
  const double ns = (line.latency_ns + kRoundingNs) + static_cast<double>(bytes) * line.ns_per_byte;
  return ns < static_cast<double>(kNeverNs) ? static_cast<std::int64_t>(ns) : kNeverNs;
}

/// The times of transfers between all pairs of devices; from a device to itself they are 0. Immutable; any
/// thread. The devices need not outlive it.
class TransferTable {
 public:
  explicit TransferTable(const DeviceSet& devices);
  std::size_t num_devices() const { return num_devices_; }

  /// whole_ns() of the line between two devices.
  std::int64_t ns(DeviceId source, DeviceId target, std::int64_t bytes) const {
    return whole_ns(line(source, target), bytes);
  }
  /// Whole nanoseconds, rounded down: for the features of `scheduler` alone. At most kNeverNs. `bytes` >= 0.
  std::int64_t floor_ns(DeviceId source, DeviceId target, double bytes) const {
    const TransferLine& between = line(source, target);
    const double ns = between.latency_ns + bytes * between.ns_per_byte;
    return ns < static_cast<double>(kNeverNs) ? static_cast<std::int64_t>(ns) : kNeverNs;
  }

  const TransferLine& line(DeviceId source, DeviceId target) const { return lines_[pair(source, target)]; }
  /// The mean of the lines between each two of `devices`; 0 if there are fewer than two.
  TransferLine mean_line(std::span<const DeviceId> devices) const;
  TransferTime time(DeviceId source, DeviceId target, std::int64_t bytes) const {
    const Rate& rate = rates_[pair(source, target)];
    return {rate.latency_s, static_cast<double>(bytes) / rate.bytes_per_s};
  }
  double latency_s(DeviceId source, DeviceId target) const { return rates_[pair(source, target)].latency_s; }
  /// Infinite from a device to itself.
  double bytes_per_s(DeviceId source, DeviceId target) const {
    return rates_[pair(source, target)].bytes_per_s;
  }
  double s_per_byte(DeviceId source, DeviceId target) const { return 1 / bytes_per_s(source, target); }

 private:
  struct Rate {
    double latency_s, bytes_per_s;
  };
  std::size_t pair(DeviceId source, DeviceId target) const {
    return index(source) * num_devices_ + index(target);
  }

  std::size_t num_devices_;
  std::vector<TransferLine> lines_;  // [devices, devices] Source first.
  std::vector<Rate> rates_;          // [devices, devices] Source first.
};

}  // namespace emplace
