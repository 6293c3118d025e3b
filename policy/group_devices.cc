#include "policy/group_devices.h"

#include <string>

namespace emplace::policy {

AllowedDevices allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                     std::span<const std::uint32_t> group_of_op, std::size_t groups) {
  DeviceMask all;
  for (std::size_t d = 0; d < num_devices; ++d) all.set(d);
  std::vector<DeviceMask> masks(groups, all);
  bool forbidden = false;
  for (std::size_t op = 0; op < group_of_op.size(); ++op) {
    const DeviceMask& mask = constraints.allowed(constraints.classes()[op]);
    forbidden = forbidden || (mask & all) != all;
    masks[group_of_op[op]] &= mask;
  }
  AllowedDevices allowed;
  for (std::size_t g = 0; g < groups && forbidden; ++g) {
    auto& devices = allowed.emplace_back();
    for (std::size_t d = 0; d < num_devices; ++d) devices.push_back(masks[g].none() || masks[g].test(d));
  }
  return allowed;
}

Result<std::vector<std::uint8_t>> devices_by_group(const GraphView& view, const Placement& placement,
                                                   std::span<const std::uint32_t> group_of_op,
                                                   const AllowedDevices& allowed, std::size_t groups) {
  EMPLACE_TRY(view.check(placement));
  const OpGraph& graph = *view.graph;
  const DeviceSet& devices = *view.devices;
  DeviceMask all;
  for (std::size_t d = 0; d < devices.size(); ++d) all.set(d);
  std::vector<DeviceMask> possible(groups, all);
  for (std::size_t g = 0; g < allowed.size(); ++g) {
    for (std::size_t d = 0; d < devices.size(); ++d) possible[g].set(d, allowed[g][d]);
  }
  std::vector<OpId> first(groups, kNoOp);
  for (std::uint32_t op = 0; op < placement.size(); ++op) {
    const std::uint32_t group = group_of_op[op];
    if (first[group] == kNoOp) first[group] = OpId{op};
    const DeviceMask& may = view.constraints->allowed(view.constraints->class_of(OpId{op}));
    const std::size_t here = index(placement[op]);
    // Repair moves an op from a forbidden device to the lowest allowed one.
    DeviceMask leads_here = may._Find_first() == here ? ~may : DeviceMask{};
    leads_here.set(here);
    if ((possible[group] & leads_here).none()) {
      const OpId other = first[group];
      return invalid("group " + std::to_string(group),
                     "is split: '" + std::string{graph.name(other)} + "' is on " +
                         std::string{devices[placement[index(other)]].name} + ", '" +
                         std::string{graph.name(OpId{op})} + "' on " +
                         std::string{devices[placement[op]].name});
    }
    possible[group] &= leads_here;
  }
  std::vector<std::uint8_t> chosen;
  for (std::size_t g = 0; g < groups; ++g) {
    if (first[g] == kNoOp)
      return invalid("group " + std::to_string(g), "has no ops, so its device is unknown");
    chosen.push_back(static_cast<std::uint8_t>(possible[g]._Find_first()));
  }
  return chosen;
}

Placement spread_groups(const Constraints& constraints, std::span<const std::uint32_t> group_of_op,
                        std::span<const std::uint8_t> device_of_group) {
  Placement placement;
  placement.reserve(group_of_op.size());
  for (const std::uint32_t group : group_of_op)
    placement.push_back(static_cast<DeviceId>(device_of_group[group]));
  constraints.repair(placement);
  return placement;
}

std::vector<Placement> expand_groups(const Constraints& constraints,
                                     std::span<const std::uint32_t> group_of_op, std::size_t groups,
                                     std::span<const std::uint8_t> devices) {
  std::vector<Placement> placements;
  for (std::size_t first = 0; first < devices.size(); first += groups)
    placements.push_back(spread_groups(constraints, group_of_op, devices.subspan(first, groups)));
  return placements;
}

}  // namespace emplace::policy
