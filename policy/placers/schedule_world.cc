#include "policy/placers/schedule_world.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "policy/group_devices.h"

namespace emplace::policy {
namespace {

constexpr double kFastEnough = 0.125;  // Share of the fastest device's speed from which a device counts.

}  // namespace

ScheduleWorld::ScheduleWorld(const LoweredGraph& lowered, const DeviceSet& devices, const CostTable& costs,
                             ScheduleUnits units)
    : unit_of_op_{std::move(units.unit_of_op)},
      allowed_{std::move(units.allowed)},
      machine_{
          devices,
          {devices,
           costs,
           {.memory = DeviceLikeness::Memory::kFloat, .links = true, .engines = true, .choices = allowed_}}} {
  EMPLACE_CHECK(devices.size() < kNowhere && unit_of_op_.size() == lowered.num_ops() &&
                    units.live_bytes.size() == num_units() * ScheduleUnits::kMoments,
                "sizes of the units must agree");
  // 1. Kernels and their units.
  const std::vector<std::uint32_t> kernel_of_op = number_kernels(lowered);
  // 2. Times on each device, and from them the speeds of the devices and the mean link.
  sum_times(lowered, devices, costs);
  find_speeds();
  // 3. Memory over time.
  note_memory(lowered, units.live_bytes, kernel_of_op);
  // 4. Reads of kernels, and traffic between units.
  list_reads(lowered, kernel_of_op);
  list_neighbours(find_traffic(lowered));
  // 5. Features of the units, and the order in which devices are near.
  features_ = schedule_features(*this, lowered);
  find_near();
}

/// [ops] The kernel of each op, or kNoIndex.
std::vector<std::uint32_t> ScheduleWorld::number_kernels(const LoweredGraph& lowered) {
  const std::span<const OpId> kernels = lowered.kernels();
  std::vector<std::uint32_t> kernel_of_op(lowered.num_ops(), kNoIndex);
  for (std::uint32_t k = 0; k < kernels.size(); ++k) {
    kernel_of_op[index(kernels[k])] = k;
    unit_of_kernel_.push_back(unit_of_op_[index(kernels[k])]);
  }
  return kernel_of_op;
}

void ScheduleWorld::sum_times(const LoweredGraph& lowered, const DeviceSet& devices, const CostTable& costs) {
  const std::span<const OpId> kernels = lowered.kernels();
  times_.kernel_ns.assign(costs.num_rows() * kernels.size(), 0);
  times_.unit_ns.assign(costs.num_rows() * num_units(), 0);
  times_.total_ns.assign(costs.num_rows(), 0);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    const std::size_t row = costs.row_of(id);
    machine_.row.push_back(row);
    machine_.memory.push_back(static_cast<float>(devices[id].memory_bytes));
    machine_.is_cpu.push_back(devices.is_cpu(id));
    if (times_.total_ns[row] > 0) continue;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto ns = static_cast<double>(costs.ns(id, kernels[k]));
      times_.kernel_ns[row * kernels.size() + k] = ns;
      times_.unit_ns[row * num_units() + unit_of_kernel_[k]] += ns;
      times_.total_ns[row] += ns;
    }
  }
  times_.best_ns.assign(num_units(), std::numeric_limits<double>::infinity());
  for (std::size_t u = 0; u < num_units(); ++u)
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (allowed_[u].test(d)) times_.best_ns[u] = std::min(times_.best_ns[u], unit_ns(d, u));
}

void ScheduleWorld::find_speeds() {
  double least = std::numeric_limits<double>::infinity();
  for (const double each : times_.total_ns) least = std::min(least, each);
  least = std::max(1.0, least);
  double speeds = 0;
  for (const std::size_t row : machine_.row) {
    machine_.speed.push_back(least / std::max(1.0, times_.total_ns[row]));
    speeds += machine_.speed.back();
  }
  times_.ideal_ns = least / speeds;
  std::vector<DeviceId> fast;
  for (std::size_t d = 0; d < num_devices(); ++d)
    if (num_devices() <= 2 || is_fast(d)) fast.push_back(static_cast<DeviceId>(d));
  machine_.mean = machine_.transfers.mean_line(fast);
}

bool ScheduleWorld::is_fast(std::size_t device) const { return machine_.speed[device] >= kFastEnough; }

std::uint16_t ScheduleWorld::moment_of(std::size_t kernel) const {
  return static_cast<std::uint16_t>(kernel * ScheduleUnits::kMoments /
                                    std::max<std::size_t>(1, num_kernels()));
}

void ScheduleWorld::note_memory(const LoweredGraph& lowered, std::span<const std::int64_t> live_bytes,
                                std::span<const std::uint32_t> kernel_of_op) {
  memory_.live.assign(live_bytes.begin(), live_bytes.end());
  memory_.all_live.assign(ScheduleUnits::kMoments, 0);
  for (std::size_t u = 0; u < num_units(); ++u)
    for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m) memory_.all_live[m] += live(u)[m];
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    memory_.bytes.push_back(static_cast<double>(lowered.bytes(buffer)));
    const std::uint32_t maker = kernel_of_op[index(lowered.owner(buffer))];
    memory_.alive_from.push_back(maker == kNoIndex ? std::uint16_t{0} : moment_of(maker));
  }
}

void ScheduleWorld::list_reads(const LoweredGraph& lowered, std::span<const std::uint32_t> kernel_of_op) {
  const std::span<const OpId> kernels = lowered.kernels();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    traffic_.read_begin.push_back(static_cast<std::uint32_t>(traffic_.reads.size()));
    for (const BufferId buffer : lowered.reads(kernels[k])) {
      const OpId owner = lowered.owner(buffer);
      const std::uint32_t maker = kernel_of_op[index(owner)];
      std::size_t last = k;
      for (const OpId reader : lowered.readers(buffer))
        if (unit_of_op_[index(reader)] == unit_of_kernel_[k])
          last = std::max<std::size_t>(last, kernel_of_op[index(reader)]);
      traffic_.reads.push_back({static_cast<std::uint32_t>(index(buffer)), unit_of_op_[index(owner)],
                                maker == kNoIndex ? -1 : static_cast<std::int32_t>(maker), moment_of(last)});
    }
  }
  traffic_.read_begin.push_back(static_cast<std::uint32_t>(traffic_.reads.size()));
}

/// A buffer is sent to another unit once.
ScheduleWorld::SentBetween ScheduleWorld::find_traffic(const LoweredGraph& lowered) const {
  SentBetween sent;
  std::vector<std::uint32_t> seen;
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const std::uint32_t from = unit_of_op_[index(lowered.owner(BufferId{b}))];
    seen.clear();
    for (const OpId reader : lowered.readers(BufferId{b})) {
      const std::uint32_t to = unit_of_op_[index(reader)];
      if (to == from || std::find(seen.begin(), seen.end(), to) != seen.end()) continue;
      seen.push_back(to);
      Sent& between = sent[{from, to}];
      between.bytes += memory_.bytes[b];
      ++between.copies;
    }
  }
  return sent;
}

void ScheduleWorld::list_neighbours(const SentBetween& sent) {
  std::vector<std::vector<Neighbour>> sources(num_units()), targets(num_units());
  std::vector<double> in(num_units(), 0), out(num_units(), 0);
  for (const auto& [pair, between] : sent) {
    const auto [from, to] = pair;
    const double ns =
        between.bytes * machine_.mean.ns_per_byte + between.copies * machine_.mean.latency_ns + 1;
    const auto bytes = static_cast<float>(between.bytes), copies = static_cast<float>(between.copies);
    sources[to].push_back({from, bytes, copies, static_cast<float>(ns), 0});
    targets[from].push_back({to, bytes, copies, static_cast<float>(ns), 0});
    in[to] += ns;
    out[from] += ns;
  }
  const auto append = [](std::span<const Neighbour> own, double sum_ns, std::vector<Neighbour>& all,
                         std::vector<std::uint32_t>& begin) {
    begin.push_back(static_cast<std::uint32_t>(all.size()));
    for (Neighbour each : own) {
      each.weight = each.mean_ns / static_cast<float>(sum_ns);
      all.push_back(each);
    }
  };
  for (std::size_t u = 0; u < num_units(); ++u) {
    append(sources[u], in[u], traffic_.sources, traffic_.source_begin);
    append(targets[u], out[u], traffic_.targets, traffic_.target_begin);
  }
  append({}, 0, traffic_.sources, traffic_.source_begin);
  append({}, 0, traffic_.targets, traffic_.target_begin);
  traffic_.in_ns = std::move(in);
}

void ScheduleWorld::find_near() {
  const std::size_t count = num_devices();
  double bytes = 1, copies = 1;
  for (const Neighbour& each : traffic_.sources) {
    bytes += static_cast<double>(each.bytes);
    copies += static_cast<double>(each.copies);
  }
  const auto apart_ns = [&](std::size_t a, std::size_t b) {
    const TransferLine &there = line(a, b), &back = line(b, a);
    return there.latency_ns + back.latency_ns + bytes / copies * (there.ns_per_byte + back.ns_per_byte);
  };
  std::vector<double> sum_ns(count);  // Sum of transfers with the devices chosen so far; of all at first.
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b) sum_ns[a] += a == b ? 0 : apart_ns(a, b);
  std::vector<bool> chosen(count);
  while (machine_.near.size() < count) {
    std::size_t best = count;
    const auto before = [&](std::size_t a, std::size_t b) {
      const double far_a = (sum_ns[a] + 1) / machine_.speed[a], far_b = (sum_ns[b] + 1) / machine_.speed[b];
      if (machine_.near.empty())
        return std::tuple{-machine_.speed[a], -machine_.memory[a], far_a} <
               std::tuple{-machine_.speed[b], -machine_.memory[b], far_b};
      return std::tuple{far_a, -machine_.speed[a], -machine_.memory[a]} <
             std::tuple{far_b, -machine_.speed[b], -machine_.memory[b]};
    };
    for (std::size_t d = 0; d < count; ++d)
      if (!chosen[d] && (best == count || before(d, best))) best = d;
    chosen[best] = true;
    if (machine_.near.empty()) std::fill(sum_ns.begin(), sum_ns.end(), 0.0);
    machine_.near.push_back(static_cast<std::uint8_t>(best));
    for (std::size_t d = 0; d < count; ++d) sum_ns[d] += d == best ? 0 : apart_ns(d, best);
  }
}

DeviceMask ScheduleWorld::nearest_devices(std::size_t count) const {
  DeviceMask mask;
  for (std::size_t i = 0; i < std::min(count, machine_.near.size()); ++i) mask.set(machine_.near[i]);
  return mask;
}

std::vector<std::uint32_t> ScheduleWorld::units_in_order() const {
  std::vector<std::uint32_t> units;
  std::vector<bool> seen(num_units());
  for (const std::uint32_t unit : unit_of_kernel_) {
    if (!seen[unit]) units.push_back(unit);
    seen[unit] = true;
  }
  return units;
}

std::vector<std::uint8_t> ScheduleWorld::names(std::span<const std::uint8_t> device_of_unit) const {
  std::vector<std::uint8_t> name(num_devices(), kNowhere);
  std::vector<bool> taken(num_devices());
  const auto use = [&](std::size_t device) {
    for (std::size_t d = 0; name[device] == kNowhere && d < num_devices(); ++d) {
      if (taken[d] || !are_twins(device, d)) continue;
      name[device] = static_cast<std::uint8_t>(d);
      taken[d] = true;
    }
  };
  const auto use_of = [&](std::size_t unit) {
    if (device_of_unit[unit] != kNowhere) use(device_of_unit[unit]);
  };
  for (const std::uint32_t unit : unit_of_kernel_) use_of(unit);
  for (std::size_t unit = 0; unit < num_units(); ++unit) use_of(unit);
  for (std::size_t device = 0; device < num_devices(); ++device) use(device);
  return name;
}

std::vector<std::uint8_t> ScheduleWorld::renamed(std::span<const std::uint8_t> device_of_unit) const {
  const auto name = names(device_of_unit);
  std::vector<std::uint8_t> renamed(device_of_unit.begin(), device_of_unit.end());
  for (std::uint8_t& device : renamed)
    if (device != kNowhere) device = name[device];
  return renamed;
}

std::vector<std::uint8_t> ScheduleWorld::units_of(std::span<const DeviceId> placement) const {
  return majority_devices(placement, unit_of_op_, num_units(), num_devices(),
                          [&](std::size_t unit, std::size_t device) { return allowed_[unit].test(device); });
}

Placement ScheduleWorld::placement_of(std::span<const std::uint8_t> device_of_unit) const {
  std::vector<std::uint8_t> chosen(device_of_unit.begin(), device_of_unit.end());
  std::vector<double> free(machine_.memory.begin(), machine_.memory.end());
  const auto peak = [&](std::size_t unit) { return static_cast<double>(std::ranges::max(live(unit))); };
  for (std::size_t u = 0; u < num_units(); ++u)
    if (chosen[u] != kNowhere) free[chosen[u]] -= peak(u);
  for (std::size_t u = 0; u < num_units(); ++u) {
    if (chosen[u] != kNowhere) continue;
    std::size_t best = num_devices();
    for (std::size_t d = 0; d < num_devices(); ++d)
      if (allowed_[u].test(d) && (best == num_devices() || free[d] > free[best])) best = d;
    chosen[u] = static_cast<std::uint8_t>(best);
    free[best] -= peak(u);
  }
  Placement placement;
  placement.reserve(unit_of_op_.size());
  for (const std::uint32_t unit : unit_of_op_) placement.push_back(static_cast<DeviceId>(chosen[unit]));
  return placement;
}

void ScheduleWorld::move_units(Placement& placement, std::span<const std::uint8_t> before,
                               std::span<const std::uint8_t> after) const {
  for (std::size_t op = 0; op < placement.size(); ++op) {
    const std::uint32_t unit = unit_of_op_[op];
    if (after[unit] != before[unit] && after[unit] != kNowhere)
      placement[op] = static_cast<DeviceId>(after[unit]);
  }
}

}  // namespace emplace::policy
