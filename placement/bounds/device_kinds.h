#pragma once
/// Devices that a bound need not tell apart: alike in cost and in who may use them.

#include <cstdint>
#include <vector>

#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// What a device kind costs each op, and how fast data gets from kind to kind at best.
struct DeviceKinds {
  std::vector<DeviceId> example;           ///< [kinds]
  std::vector<std::int64_t> count;         ///< [kinds] devices of it
  std::vector<std::int64_t> memory_bytes;  ///< [kinds] of all its devices together
  std::vector<std::vector<bool>> allowed;  ///< [classes, kinds]
  std::vector<double> latency_ns,
      ns_per_byte;  ///< [kinds, kinds] least over pairs of devices; infinite if none

  std::size_t size() const { return example.size(); }
  /// What the simulator takes for `bytes` from a device of one kind to another device of the other, at least
  /// [ns].
  std::int64_t transfer_ns(std::size_t source, std::size_t target, std::int64_t bytes) const {
    const std::size_t pair = source * size() + target;
    const double ns = latency_ns[pair] + static_cast<double>(bytes) * ns_per_byte[pair];
    return ns < 4e18 ? static_cast<std::int64_t>(ns) : kNever;
  }
  static constexpr std::int64_t kNever = std::int64_t{1} << 61;  ///< Later than anything; two can be added.
};

/// `choices` [classes]: the devices that each class may use, never none.
DeviceKinds device_kinds(const DeviceSet& devices, const std::vector<DeviceMask>& choices,
                         const CostTable& costs);

}  // namespace emplace
