#pragma once
/// Devices of groups of ops: those that a policy may choose, those of a placement, and back.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/placement.h"

namespace emplace::policy {

/// A graph, its machine and its constraints. Refers to its data.
struct GraphView {
  const OpGraph* graph = nullptr;
  const DeviceSet* devices = nullptr;
  const Constraints* constraints = nullptr;
  /// Errors: those of Constraints::check().
  Result<Unit> check(const Placement& placement) const {
    return constraints->check(*graph, *devices, placement);
  }
};

/// [groups, devices] True if every op of the group may use the device. All true for a group whose ops have no
/// device in common: repair moves those ops. Empty if nothing is forbidden.
using AllowedDevices = std::vector<std::vector<bool>>;

/// `group_of_op`: [ops] of the constraints' graph, each below `groups`. Pure; any thread.
AllowedDevices allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                     std::span<const std::uint32_t> group_of_op, std::size_t groups);

/// [groups] The device that a policy must choose per group to produce `placement` under the constraints; the
/// lowest if several are possible. `allowed` is the result of allowed_group_devices(). Errors (kInvalid):
/// wrong graph, violated constraint, group without ops, or group split over devices (the message names the
/// group and two of its ops).
Result<std::vector<std::uint8_t>> devices_by_group(const GraphView& view, const Placement& placement,
                                                   std::span<const std::uint32_t> group_of_op,
                                                   const AllowedDevices& allowed, std::size_t groups);

/// [groups] The device of most ops of each group in `placement` [ops], of those that `may_use(group, device)`
/// permits; the lowest of equals. @pre each group may use a device.
template <class MayUse>
std::vector<std::uint8_t> majority_devices(std::span<const DeviceId> placement,
                                           std::span<const std::uint32_t> group_of_op, std::size_t groups,
                                           std::size_t devices, const MayUse& may_use) {
  std::vector<std::uint32_t> votes(groups * devices);
  for (std::size_t op = 0; op < placement.size(); ++op)
    ++votes[group_of_op[op] * devices + index(placement[op])];
  std::vector<std::uint8_t> chosen;
  for (std::size_t g = 0; g < groups; ++g) {
    std::size_t best = devices;
    for (std::size_t d = 0; d < devices; ++d)
      if (may_use(g, d) && (best == devices || votes[g * devices + d] > votes[g * devices + best])) best = d;
    chosen.push_back(static_cast<std::uint8_t>(best));
  }
  return chosen;
}

/// The placement that puts each group on its device, with constraints applied.
Placement spread_groups(const Constraints& constraints, std::span<const std::uint32_t> group_of_op,
                        std::span<const std::uint8_t> device_of_group);
/// The same for devices by group [k, groups]: k placements.
std::vector<Placement> expand_groups(const Constraints& constraints,
                                     std::span<const std::uint32_t> group_of_op, std::size_t groups,
                                     std::span<const std::uint8_t> devices);

}  // namespace emplace::policy
