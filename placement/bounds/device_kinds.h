#pragma once
/// Groups devices that are interchangeable for a bound into kinds: a coarser DeviceClasses, with sums.

#include <cstdint>
#include <vector>

#include "placement/machine/cost_model.h"
#include "placement/machine/transfer_table.h"
#include "placement/placement.h"

namespace emplace {

/// Devices of one kind have equal op times and are allowed to the same classes, so a bound needs only the
/// kind. Links between kinds are relaxed to the fastest one, which keeps every bound valid.
struct DeviceKinds {
  std::vector<DeviceId> example;           ///< [kinds] One device of each kind.
  std::vector<std::size_t> of_device;      ///< [devices] The kind of each device.
  std::vector<std::int64_t> count;         ///< [kinds] Number of devices.
  std::vector<std::int64_t> memory_bytes;  ///< [kinds] Total over the kind's devices.
  std::vector<std::vector<bool>> allowed;  ///< [classes, kinds] Whether the class may use the kind.
  /// [kinds, kinds] Latency and time per byte, each the least over pairs of distinct devices; infinite if
  /// there is no pair.
  std::vector<TransferLine> fastest;

  std::size_t size() const { return example.size(); }
  /// A lower bound [ns] of the simulator's time to transfer `bytes` from a device of kind `source` to a
  /// different device of kind `target`.
  std::int64_t transfer_ns(std::size_t source, std::size_t target, std::int64_t bytes) const {
    return whole_ns(fastest[source * size() + target], bytes);
  }
  /// Later than any time; the sum of two does not overflow.
  static constexpr std::int64_t kNever = kNeverNs;
};

/// Groups devices by op times and by the classes that may use them. `choices` [classes]: the devices that
/// each class may use, never empty.
DeviceKinds device_kinds(const DeviceSet& devices, const std::vector<DeviceMask>& choices,
                         const CostTable& costs);

}  // namespace emplace
