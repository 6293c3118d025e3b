#pragma once
// Graphs and machines as the scheduler policy sees them.

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/placers/scheduler.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {

/// Devices that all differ in memory and in links. `name[d]`: the device with number d.
inline DeviceSet different_devices(std::span<const std::size_t> name) {
  std::vector<Device> devices;
  std::vector<Link> links;
  const DeviceSet plain = testing::sample_devices(name.size(), false, 1 << 30);
  for (const std::size_t own : name) {
    Device device = plain[DeviceId{0}];
    device.name = "gpu:" + std::to_string(own);
    device.memory_bytes += static_cast<std::int64_t>(own) << 20;
    devices.push_back(device);
    for (const std::size_t other : name)
      links.push_back({.bytes_per_s = 1e8 * static_cast<double>(1 + own + 3 * other), .latency_s = 1e-6});
  }
  return *DeviceSet::make(std::move(devices), std::move(links));
}

/// A random graph in which every co-location class is a unit that keeps `live` bytes allocated.
struct Scheduled : testing::SampleTask {
  Scheduled(std::uint64_t seed, std::uint32_t ops, DeviceSet machine, std::int64_t live = 1 << 10)
      : SampleTask{testing::random_graph(seed, ops), std::move(machine)},
        costs{graph, devices},
        lowered{graph},
        world{lowered, devices, costs, units(live)} {}
  ScheduleUnits units(std::int64_t live) const {
    ScheduleUnits units;
    const auto classes = constraints.classes();
    units.unit_of_op.assign(classes.begin(), classes.end());
    for (std::uint32_t c = 0; c < constraints.num_classes(); ++c)
      units.allowed.push_back(constraints.allowed(c));
    units.live_bytes.assign(units.allowed.size() * ScheduleUnits::kMoments, live);
    return units;
  }
  CostTable costs;
  LoweredGraph lowered;
  ScheduleWorld world;
};

}  // namespace emplace::policy
