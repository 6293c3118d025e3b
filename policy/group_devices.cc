#include "policy/group_devices.h"

namespace emplace::policy {
namespace {

template <class Group>
std::vector<std::vector<bool>> allowed_of(const Constraints& constraints, std::size_t num_devices,
                                          std::span<const Group> group_of_op, std::size_t groups) {
  DeviceMask all;
  for (std::size_t d = 0; d < num_devices; ++d) all.set(d);
  std::vector<DeviceMask> masks(groups, all);
  bool forbidden = false;
  for (std::size_t op = 0; op < group_of_op.size(); ++op) {
    const DeviceMask& mask = constraints.allowed(constraints.classes()[op]);
    forbidden = forbidden || (mask & all) != all;
    masks[group_of_op[op]] &= mask;
  }
  std::vector<std::vector<bool>> allowed;
  for (std::size_t g = 0; g < groups && forbidden; ++g) {
    auto& devices = allowed.emplace_back();
    for (std::size_t d = 0; d < num_devices; ++d) devices.push_back(masks[g].none() || masks[g].test(d));
  }
  return allowed;
}

}  // namespace

std::vector<std::vector<bool>> allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                                     std::span<const std::uint16_t> group_of_op,
                                                     std::size_t groups) {
  return allowed_of(constraints, num_devices, group_of_op, groups);
}

std::vector<std::vector<bool>> allowed_group_devices(const Constraints& constraints, std::size_t num_devices,
                                                     std::span<const std::uint32_t> group_of_op,
                                                     std::size_t groups) {
  return allowed_of(constraints, num_devices, group_of_op, groups);
}

}  // namespace emplace::policy
