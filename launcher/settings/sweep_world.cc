#include "launcher/settings/sweep_world.h"

#include <algorithm>
#include <utility>

#include "placement/machine/cost_model.h"
#include "placement/machine/device_classes.h"
#include "placement/split_costs.h"
#include "policy/group_devices.h"

namespace emplace::launcher {

policy::SweepWorld sweep_world(const actors::TaskGraph& task, const Grouping& grouping, bool acyclic) {
  const SplitCosts costs{task.graph, task.devices};
  const CostTable rows{task.graph, task.devices};
  policy::SweepWorld world;
  world.groups = grouping.num_groups;
  world.devices = task.devices.size();
  world.time_s.resize(world.groups * world.devices);
  world.bytes.resize(world.groups);
  const DeviceClasses classes{task.devices, rows, {.memory = DeviceLikeness::Memory::kBytes, .host = true}};
  for (std::size_t d = 0; d < world.devices; ++d) {
    world.accelerator.push_back(costs.is_accelerator(d));
    world.memory.push_back(static_cast<double>(costs.memory_bytes(d)));
    world.kind.push_back(static_cast<std::uint32_t>(classes.of(static_cast<DeviceId>(d))));
    for (std::size_t op = 0; op < costs.num_ops(); ++op) {
      if (costs.counts(op))
        world.time_s[d * world.groups + grouping.group_of_op[op]] +=
            static_cast<double>(costs.time_ps(d, op)) * 1e-12;
    }
  }
  for (std::size_t op = 0; op < costs.num_ops(); ++op)
    world.bytes[grouping.group_of_op[op]] += static_cast<double>(costs.bytes(op));
  for (std::uint32_t net = 0; net < costs.num_nets(); ++net) {
    policy::SweepNet tensor{
        grouping.group_of_op[costs.maker(net)], {}, static_cast<double>(costs.net_ps(net)) * 1e-12};
    for (const std::uint32_t reader : costs.readers(net))
      tensor.readers.push_back(grouping.group_of_op[reader]);
    std::sort(tensor.readers.begin(), tensor.readers.end());
    tensor.readers.erase(std::unique(tensor.readers.begin(), tensor.readers.end()), tensor.readers.end());
    std::erase(tensor.readers, tensor.maker);
    if (!tensor.readers.empty()) world.nets.push_back(std::move(tensor));
  }
  world.allowed = policy::allowed_group_devices(task.constraints, world.devices,
                                                std::span{grouping.group_of_op}, world.groups);
  world.acyclic = acyclic;
  return world;
}

}  // namespace emplace::launcher
