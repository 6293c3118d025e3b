#include "solver/list/list_schedule.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace emplace {
namespace {

constexpr std::int64_t kNever = -1;
constexpr std::int64_t kShortestCopyGap = 5'000;  // Half of PCIe's latency [ns].
constexpr std::size_t kGapsLookedAt = 8;

std::vector<std::uint32_t> as_numbers(const std::vector<DeviceId>& devices, const DeviceMask& allowed) {
  std::vector<std::uint32_t> numbers;
  for (const DeviceId device : devices) {
    if (allowed.test(index(device))) numbers.push_back(static_cast<std::uint32_t>(index(device)));
  }
  return numbers;
}

}  // namespace

ListTask::ListTask(const Problem& problem_in)
    : problem{problem_in}, lowered{problem_in.graph}, transfers{problem_in.devices} {
  best_ns.assign(problem.graph.num_ops(), 0);
  for (std::uint32_t i = 0; i < best_ns.size(); ++i) {
    const DeviceMask& allowed = problem.constraints.allowed(problem.constraints.class_of(OpId{i}));
    std::int64_t best = -1;
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      if (!allowed.test(d)) continue;
      const std::int64_t ns = problem.costs.ns(static_cast<DeviceId>(d), OpId{i});
      best = best < 0 ? ns : std::min(best, ns);
    }
    best_ns[i] = std::max<std::int64_t>(0, best);
    state_bytes += lowered.resident_bytes(OpId{i});
  }
}

PartialSchedule::PartialSchedule(const ListTask& task, const PlacingUnits& units, const ListLimits& limits)
    : task_{task},
      units_{units},
      limits_{limits},
      num_devices_{task.problem.devices.size()},
      device_of_unit_(units.allowed.size(), -1),
      end_ns_(task.lowered.num_ops(), kNever),
      arrival_ns_(task.lowered.num_buffers() * num_devices_, kNever),
      last_use_ns_(task.lowered.num_buffers() * num_devices_, 0),
      readers_left_(task.lowered.num_buffers(), 0),
      references_(task.lowered.num_buffers(), 0),
      free_ns_(num_devices_, 0),
      engines_(num_devices_, IdleGaps{kShortestCopyGap, kGapsLookedAt}),
      memory_{num_devices_, task.lowered.kernels().size()},
      state_used_(num_devices_, 0) {
  for (std::uint32_t b = 0; b < readers_left_.size(); ++b) {
    readers_left_[b] = static_cast<std::uint32_t>(task.lowered.readers(BufferId{b}).size());
    references_[index(task.lowered.base(BufferId{b}))] += readers_left_[b];
  }
  if (!units.live_bytes.empty()) committed_.assign(num_devices_ * PlacingUnits::kMoments, 0);
  double memory = 0;
  for (const DeviceId device : limits.devices)
    memory += static_cast<double>(task.problem.devices[device].memory_bytes);
  for (std::size_t d = 0; d < num_devices_; ++d) {
    const auto own = static_cast<double>(task.problem.devices[static_cast<DeviceId>(d)].memory_bytes);
    limit_bytes_.push_back(static_cast<std::int64_t>(own * (1 - limits.reserve)));
    const double share = static_cast<double>(task.state_bytes) * own / std::max(1.0, memory);
    state_limit_.push_back(
        limits.state_slack == 0
            ? limit_bytes_.back()
            : std::min(limit_bytes_.back(), static_cast<std::int64_t>(share * limits.state_slack)));
  }
}

void PartialSchedule::candidates(OpId op, std::vector<std::uint32_t>& out) const {
  const std::uint32_t unit = units_.unit_of_op[index(op)];
  if (device_of_unit_[unit] >= 0) {
    out.assign(1, static_cast<std::uint32_t>(device_of_unit_[unit]));
    return;
  }
  out = as_numbers(limits_.devices, units_.allowed[unit]);
  if (out.empty()) out = as_numbers(limits_.refuge, units_.allowed[unit]);
  if (out.empty()) out = as_numbers(all_devices(task_.problem.devices), units_.allowed[unit]);
}

std::size_t PartialSchedule::home(BufferId buffer, std::size_t reader_device) const {
  const std::int32_t device = device_of_unit_[units_.unit_of_op[index(task_.lowered.owner(buffer))]];
  return device >= 0 ? static_cast<std::size_t>(device) : reader_device;
}

std::int64_t PartialSchedule::data_ready_ns(OpId op, std::size_t device) const {
  std::int64_t ready = 0;
  for (const BufferId buffer : task_.lowered.reads(op)) {
    const std::int64_t made = std::max<std::int64_t>(0, end_ns_[index(task_.lowered.owner(buffer))]);
    const std::size_t from = home(buffer, device);
    if (from == device) {
      ready = std::max(ready, made);
    } else if (const std::int64_t there = arrival(buffer)[device]; there >= 0) {
      ready = std::max(ready, there);
    } else {
      const std::int64_t takes = task_.transfer_ns(from, device, task_.lowered.bytes(buffer));
      ready = std::max(ready, engines_[from].start(made, takes) + takes);
    }
  }
  return ready;
}

std::int64_t PartialSchedule::bytes_over(OpId op, std::size_t device, std::int64_t start_ns,
                                         bool with_reserve) {
  std::int64_t need = task_.lowered.output_bytes(op), state = 0, before = 0;
  touched_.clear();
  const auto touch = [&](std::uint32_t unit) {
    if (device_of_unit_[unit] >= 0) return;
    if (units_.state_bytes[unit] == 0 && committed_.empty()) return;
    if (std::find(touched_.begin(), touched_.end(), unit) != touched_.end()) return;
    touched_.push_back(unit);
    state += units_.state_bytes[unit];
  };
  touch(units_.unit_of_op[index(op)]);
  for (const BufferId buffer : task_.lowered.reads(op)) {
    const std::uint32_t unit = units_.unit_of_op[index(task_.lowered.owner(buffer))];
    if (device_of_unit_[unit] < 0 && units_.allowed[unit].test(device)) {
      touch(unit);
    } else if (home(buffer, device) != device && arrival(buffer)[device] < 0) {
      const std::size_t from = home(buffer, device);
      const std::int64_t made = std::max<std::int64_t>(0, end_ns_[index(task_.lowered.owner(buffer))]);
      const std::int64_t bytes = task_.lowered.bytes(buffer);
      before = std::max(
          before,
          memory_.peak_since(device, engines_[from].start(made, task_.transfer_ns(from, device, bytes))) +
              bytes);
      need += bytes;
    }
  }
  if (state > 0) before = std::max(before, memory_.peak_since(device, 0) + state);
  const std::int64_t used = std::max(before, memory_.level(device, start_ns) + need + state);
  const std::int64_t limit =
      with_reserve ? limit_bytes_[device] : task_.problem.devices[static_cast<DeviceId>(device)].memory_bytes;
  std::int64_t over = used - limit;
  if (!committed_.empty() && !touched_.empty()) {
    std::int64_t most = 0;
    for (std::size_t m = 0; m < PlacingUnits::kMoments; ++m) {
      std::int64_t live = committed_[device * PlacingUnits::kMoments + m];
      for (const std::uint32_t unit : touched_) live += units_.live_bytes[unit * PlacingUnits::kMoments + m];
      most = std::max(most, live);
    }
    over = std::max(over, most - limit);
  }
  return state == 0 || !with_reserve ? over
                                     : std::max(over, state_used_[device] + state - state_limit_[device]);
}

std::size_t PartialSchedule::refuge_for(OpId op, const std::vector<std::uint32_t>& candidates) {
  tight_ = true;
  const auto start = [&](std::size_t d) { return std::max(free_ns_[d], data_ready_ns(op, d)); };
  std::size_t best = num_devices_;
  std::int64_t best_ns = 0;
  for (const std::uint32_t d : candidates) {
    const std::int64_t begin = start(d);
    if (!limits_.refuge.empty() || bytes_over(op, d, begin, /*with_reserve=*/false) > 0) continue;
    if (best < num_devices_ && begin >= best_ns) continue;
    best = d;
    best_ns = begin;
  }
  if (best < num_devices_) return best;
  const std::uint32_t unit = units_.unit_of_op[index(op)];
  if (device_of_unit_[unit] < 0) {
    for (const DeviceId device : limits_.refuge) {
      const std::size_t d = index(device);
      if (units_.allowed[unit].test(d) && bytes_over(op, d, start(d)) <= 0) return d;
    }
  }
  return *std::min_element(candidates.begin(), candidates.end(), [&](std::uint32_t a, std::uint32_t b) {
    return bytes_over(op, a, start(a), false) < bytes_over(op, b, start(b), false);
  });
}

void PartialSchedule::settle(std::uint32_t unit, std::size_t device) {
  if (device_of_unit_[unit] >= 0) return;
  if (!units_.allowed[unit].test(device)) {
    device = 0;
    while (!units_.allowed[unit].test(device)) ++device;
  }
  device_of_unit_[unit] = static_cast<std::int32_t>(device);
  memory_.take(device, units_.state_bytes[unit], 0);
  state_used_[device] += units_.state_bytes[unit];
  if (committed_.empty()) return;
  for (std::size_t m = 0; m < PlacingUnits::kMoments; ++m)
    committed_[device * PlacingUnits::kMoments + m] += units_.live_bytes[unit * PlacingUnits::kMoments + m];
}

std::int64_t PartialSchedule::order_copies(OpId op, std::size_t device) {
  const LoweredGraph& lowered = task_.lowered;
  settle(units_.unit_of_op[index(op)], device);
  std::int64_t ready = 0;
  for (const BufferId buffer : lowered.reads(op)) {
    const OpId owner = lowered.owner(buffer);
    settle(units_.unit_of_op[index(owner)], device);
    const std::size_t from = home(buffer, device);
    std::int64_t there = std::max<std::int64_t>(0, end_ns_[index(owner)]);
    if (from != device) {
      std::int64_t& arrives = arrival(buffer)[device];
      if (arrives < 0) {
        const std::int64_t takes = task_.transfer_ns(from, device, lowered.bytes(buffer));
        const std::int64_t begin = engines_[from].start(there, takes);
        arrives = begin + takes;
        engines_[from].fill(begin, arrives);
        memory_.take(device, lowered.bytes(buffer), begin);
        use(buffer, from, arrives);
      }
      there = arrives;
    }
    ready = std::max(ready, there);
  }
  return ready;
}

void PartialSchedule::place(OpId op, std::size_t device, std::int64_t start_ns) {
  const LoweredGraph& lowered = task_.lowered;
  end_ns_[index(op)] = start_ns + task_.problem.costs.ns(static_cast<DeviceId>(device), op);
  free_ns_[device] = std::max(free_ns_[device], end_ns_[index(op)]);
  memory_.tick(start_ns);
  memory_.take(device, lowered.output_bytes(op), start_ns);
  memory_.give_back(device, lowered.unread_bytes(op), end_ns_[index(op)]);
  for (const BufferId buffer : lowered.reads(op)) {
    const BufferId base = lowered.base(buffer);
    const std::size_t from = home(base, device);
    use(buffer, device, end_ns_[index(op)]);
    use(base, from, last_use_ns_[index(buffer) * num_devices_ + from]);
    if (--readers_left_[index(buffer)] == 0) {
      for (std::size_t d = 0; d < num_devices_; ++d) {
        if (arrival(buffer)[d] >= 0)
          memory_.give_back(d, lowered.bytes(buffer), last_use_ns_[index(buffer) * num_devices_ + d]);
      }
    }
    if (--references_[index(base)] == 0)
      memory_.give_back(from, lowered.freed_bytes(base), last_use_ns_[index(base) * num_devices_ + from]);
  }
}

Placement PartialSchedule::placement() && {
  const OpGraph& graph = task_.problem.graph;
  const auto roomiest = [&](std::uint32_t unit) {
    std::vector<std::uint32_t> open = as_numbers(limits_.devices, units_.allowed[unit]);
    if (open.empty()) open = as_numbers(all_devices(task_.problem.devices), units_.allowed[unit]);
    return *std::max_element(open.begin(), open.end(), [&](std::uint32_t a, std::uint32_t b) {
      return limit_bytes_[a] - memory_.peak_since(a, 0) < limit_bytes_[b] - memory_.peak_since(b, 0);
    });
  };
  Placement placement(graph.num_ops());
  for (const OpId op : graph.topological_order()) {
    const std::uint32_t unit = units_.unit_of_op[index(op)];
    if (device_of_unit_[unit] < 0) {
      std::size_t device = num_devices_;
      if (graph.is_view(op) && !graph.inputs(op).empty())
        device = index(placement[index(graph.producer(graph.inputs(op)[0]))]);
      settle(unit, device < num_devices_ && units_.allowed[unit].test(device) ? device : roomiest(unit));
    }
    placement[index(op)] = static_cast<DeviceId>(device_of_unit_[unit]);
  }
  return placement;
}

Result<Answer> best_over_reserves(const ListTask& task, Executor& executor, const Lister& lister) {
  constexpr std::size_t kLarge = 120'000;  // Ops times devices.
  constexpr int kFitsWanted = 3;  // Feasible attempts without the CPU; further reserves never paid off.
  struct Attempt {
    double reserve, state_slack;
  };
  constexpr Attempt kAttempts[] = {{0, 0}, {0.05, 1.5}, {0.10, 1.3}, {0.20, 1.2}, {0.30, 1.1}, {0.40, 1.03}};
  const Problem& problem = task.problem;
  const std::vector<DeviceId> fast = fast_devices(problem.devices), all = all_devices(problem.devices);
  std::vector<DeviceId> slow;
  for (const DeviceId device : all)
    if (std::find(fast.begin(), fast.end(), device) == fast.end()) slow.push_back(device);
  // Skip attempts on large problems to stay below a second: an attempt takes about 0.2 us per op and device.
  const std::size_t stride = task.lowered.kernels().size() * all.size() > kLarge ? 2 : 1;
  Best best{problem, executor};
  for (const PlacingUnits& units : placing_granularities(problem, task.lowered)) {
    bool tight = false;
    const auto attempt = [&](const ListLimits& limits) {
      PartialSchedule schedule{task, units, limits};
      lister(schedule);
      tight = schedule.was_tight();
      return best.offer(std::move(schedule).placement());
    };
    int fitted = 0;
    for (std::size_t k = 0; k < std::size(kAttempts); k += stride) {
      const Attempt& each = kAttempts[k];
      EMPLACE_TRY(attempt({fast, {}, each.reserve, each.state_slack}));
      fitted += best.last_fits() ? 1 : 0;
      if ((best.last_fits() && !tight) || fitted == kFitsWanted) break;
      if (slow.empty() || best.last_fits()) continue;
      EMPLACE_TRY(attempt({fast, slow, each.reserve, each.state_slack}));
    }
    if (slow.empty()) continue;
    EMPLACE_TRY(attempt({all, {}, 0, 0}));
  }
  return std::move(best).take();
}

}  // namespace emplace
