#include <algorithm>
#include <cstdint>
#include <vector>

#include "solver/heuristics.h"
#include "solver/list/list_schedule.h"

namespace emplace {
namespace {

/// Fills one device after another in topological order: starts the next device when the limit of the current
/// one would be exceeded; the last one takes the rest.
void fill_in_turn(PartialSchedule& schedule) {
  const ListTask& task = schedule.task();
  const std::vector<DeviceId>& devices = schedule.limits().devices;
  std::size_t current = 0;
  std::vector<std::uint32_t> open;
  for (const OpId op : task.problem.graph.topological_order()) {
    if (!task.lowered.takes_time(op)) continue;
    schedule.candidates(op, open);
    std::size_t device = open.front();
    if (open.size() > 1) {
      const auto full = [&](std::size_t d) {
        const std::int64_t start = std::max(schedule.free_ns(d), schedule.data_ready_ns(op, d));
        return schedule.bytes_over(op, d, start) > 0;
      };
      while (current + 1 < devices.size() && full(index(devices[current]))) ++current;
      const auto own = static_cast<std::uint32_t>(index(devices[current]));
      if (std::find(open.begin(), open.end(), own) != open.end()) device = own;
    }
    const std::int64_t ready = schedule.order_copies(op, device);
    schedule.place(op, device, std::max(schedule.free_ns(device), ready));
  }
}

/// Peak of live bytes with everything on one device.
std::int64_t live_bytes(const ListTask& task) {
  const LoweredGraph& lowered = task.lowered;
  std::vector<std::uint32_t> references(lowered.num_buffers(), 0);
  for (const OpId op : lowered.kernels())
    for (const BufferId buffer : lowered.reads(op)) ++references[index(lowered.base(buffer))];
  std::int64_t live = task.state_bytes, most = live;
  for (const OpId op : task.problem.graph.topological_order()) {
    if (!lowered.takes_time(op)) continue;
    live += lowered.output_bytes(op);
    most = std::max(most, live);
    live -= lowered.unread_bytes(op);
    for (const BufferId buffer : lowered.reads(op)) {
      const BufferId base = lowered.base(buffer);
      if (--references[index(base)] == 0) live -= lowered.freed_bytes(base);
    }
  }
  return most;
}

}  // namespace

Result<Answer> m_topo(const Problem& problem, Executor& executor) {
  const ListTask task{problem};
  const auto live = static_cast<double>(live_bytes(task));
  std::vector<std::vector<DeviceId>> machines{fast_devices(problem.devices)};
  if (machines.front().size() < problem.devices.size()) {
    // The CPU is last and takes the remaining ops.
    machines.push_back(machines.front());
    for (const DeviceId device : all_devices(problem.devices))
      if (std::find(machines[0].begin(), machines[0].end(), device) == machines[0].end())
        machines[1].push_back(device);
  }
  Best best{problem, executor};
  for (const PlacingUnits& units : placing_granularities(problem, task.lowered)) {
    for (const auto& devices : machines) {
      double least = 0;
      for (const DeviceId device : devices) {
        const auto bytes = static_cast<double>(problem.devices[device].memory_bytes);
        least = least == 0 ? bytes : std::min(least, bytes);
      }
      const double even = live / (least * static_cast<double>(devices.size()));
      for (const double share :
           {0.7 * even, 0.85 * even, even, 1.15 * even, 1.3 * even, 0.6, 0.8, 0.9, 1.0}) {
        const ListLimits limits{devices, {}, /*reserve=*/1 - std::clamp(share, 0.0, 1.0), 0};
        PartialSchedule schedule{task, units, limits};
        fill_in_turn(schedule);
        EMPLACE_TRY(best.offer(std::move(schedule).placement()));
      }
    }
  }
  return std::move(best).take();
}

}  // namespace emplace
