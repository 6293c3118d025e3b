#pragma once
/// Devices that a policy may choose for a group of ops.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/placement.h"

namespace emplace::policy {

/// [groups, devices] True if every op of the group may use the device. All true for a group whose ops have no
/// device in common: repair moves those ops. Empty if nothing is forbidden.
///   group_of_op  [ops] of the constraints' graph, each below `groups`
/// Pure; any thread.
std::vector<std::vector<bool>> allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                                     std::span<const std::uint16_t> group_of_op,
                                                     std::size_t groups);
std::vector<std::vector<bool>> allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                                     std::span<const std::uint32_t> group_of_op,
                                                     std::size_t groups);

/// A placement from outside the policy, with its problem.
struct ForeignPlacement {
  const OpGraph& graph;
  const DeviceSet& devices;
  const Constraints& constraints;
  std::span<const DeviceId> placement;
};

/// [groups] The device that a policy must choose per group to produce `placement` under the constraints; the
/// lowest if several are possible. `allowed` is the result of allowed_group_devices(). Errors (kInvalid):
/// wrong graph, violated constraint, group without ops, or group split over devices (the message names the
/// group and two of its ops).
Result<std::vector<std::uint8_t>> devices_by_group(const ForeignPlacement& foreign,
                                                   std::span<const std::uint16_t> group_of_op,
                                                   const std::vector<std::vector<bool>>& allowed,
                                                   std::size_t groups);
Result<std::vector<std::uint8_t>> devices_by_group(const ForeignPlacement& foreign,
                                                   std::span<const std::uint32_t> group_of_op,
                                                   const std::vector<std::vector<bool>>& allowed,
                                                   std::size_t groups);

}  // namespace emplace::policy
