#pragma once
/// Which devices a policy may put a group of ops on.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/placement.h"

namespace emplace::policy {

/// [groups, devices] true where every op of the group may use the device; all true for a group whose ops have
/// no device in common: repair sees to those. Empty if nothing is forbidden anywhere.
///   group_of_op  [ops] of the constraints' graph, each below `groups`
/// Pure; any thread.
std::vector<std::vector<bool>> allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                                     std::span<const std::uint16_t> group_of_op,
                                                     std::size_t groups);
std::vector<std::vector<bool>> allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                                     std::span<const std::uint32_t> group_of_op,
                                                     std::size_t groups);

/// A placement that somebody else drew, and what it is of.
struct ForeignPlacement {
  const OpGraph& graph;
  const DeviceSet& devices;
  const Constraints& constraints;
  std::span<const DeviceId> placement;
};

/// [groups] the device that a policy must have put each group on for `placement` to come of it, constraints
/// obeyed; the lowest where several would do. `allowed` as above. Errors (kInvalid): another graph, a
/// constraint not obeyed, a group without ops or torn over devices (it is named, and two of its ops).
Result<std::vector<std::uint8_t>> devices_by_group(const ForeignPlacement& foreign,
                                                   std::span<const std::uint16_t> group_of_op,
                                                   const std::vector<std::vector<bool>>& allowed,
                                                   std::size_t groups);
Result<std::vector<std::uint8_t>> devices_by_group(const ForeignPlacement& foreign,
                                                   std::span<const std::uint32_t> group_of_op,
                                                   const std::vector<std::vector<bool>>& allowed,
                                                   std::size_t groups);

}  // namespace emplace::policy
