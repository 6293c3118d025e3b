#include "solver/modules/unit_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace emplace {

UnitCosts::UnitCosts(const Problem& problem, const interop::ModuleChoice& choice) : problem_{problem} {
  const LoweredGraph lowered{problem.graph};
  units_.unit_of_op.assign(choice.unit_of_op.begin(), choice.unit_of_op.end());
  units_.state_bytes.assign(choice.units, 0);
  times_.assign(choice.units, std::vector<Times>(problem.devices.size()));
  for (std::uint32_t i = 0; i < problem.graph.num_ops(); ++i) {
    const std::uint32_t unit = units_.unit_of_op[i];
    units_.state_bytes[unit] += lowered.resident_bytes(OpId{i});
    if (!lowered.takes_time(OpId{i})) continue;
    const Phase phase = problem.graph.phase(OpId{i});
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      Times& times = times_[unit][d];
      (phase == Phase::kForward    ? times.forward
       : phase == Phase::kBackward ? times.backward
                                   : times.update) += problem.costs.ns(static_cast<DeviceId>(d), OpId{i});
    }
  }
  find_allowed(choice);
  find_peak_bytes(units_, lowered);
  find_traffic(lowered);
  find_spread();
}

void UnitCosts::find_allowed(const interop::ModuleChoice& choice) {
  std::vector<std::vector<std::size_t>> ops(choice.units, std::vector<std::size_t>(problem_.devices.size()));
  std::vector<std::size_t> all(choice.units, 0);
  for (std::uint32_t i = 0; i < problem_.graph.num_ops(); ++i) {
    ++all[choice.unit_of_op[i]];
    for (const DeviceId device : choice.devices)
      ops[choice.unit_of_op[i]][index(device)] += problem_.constraints.allows(OpId{i}, device) ? 1 : 0;
  }
  units_.allowed.assign(choice.units, {});
  for (std::size_t unit = 0; unit < choice.units; ++unit) {
    std::size_t most = 0;
    for (const DeviceId device : choice.devices) most = std::max(most, ops[unit][index(device)]);
    for (const DeviceId device : choice.devices)
      units_.allowed[unit].set(index(device), ops[unit][index(device)] == most);
  }
}

void UnitCosts::find_traffic(const LoweredGraph& lowered) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Traffic> pairs;
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    const std::uint32_t from = units_.unit_of_op[index(lowered.owner(buffer))];
    std::set<std::uint32_t> readers;
    for (const OpId reader : lowered.readers(buffer)) readers.insert(units_.unit_of_op[index(reader)]);
    for (const std::uint32_t to : readers) {
      if (to == from) continue;
      const auto [first, second] = std::minmax(from, to);
      Traffic& pair = pairs.try_emplace({first, second}, Traffic{first, second, 0, 0}).first->second;
      pair.bytes += lowered.bytes(buffer);
      ++pair.transfers;
    }
  }
  for (const auto& [key, pair] : pairs) traffic_.push_back(pair);
}

void UnitCosts::find_spread() {
  std::vector<bool> left(units_.size(), false);
  spread_.assign(units_.size(), false);
  std::uint32_t last = 0;
  for (const OpId op : problem_.graph.topological_order()) {
    if (problem_.graph.is_state(op) || problem_.graph.phase(op) != Phase::kForward) continue;
    const std::uint32_t unit = units_.unit_of_op[index(op)];
    if (unit == last) continue;
    left[last] = true;
    spread_[unit] = spread_[unit] || left[unit];
    last = unit;
  }
}

std::int64_t UnitCosts::transfer_ns(const Traffic& pair, DeviceId a, DeviceId b) const {
  if (a == b) return 0;
  const Link& link = problem_.devices.link(a, b);
  return std::llround(1e9 * (static_cast<double>(pair.transfers) * link.latency_s +
                             static_cast<double>(pair.bytes) / link.bytes_per_s));
}

std::int64_t UnitCosts::time_ns(std::span<const DeviceId> devices) const {
  std::int64_t sum = 0;
  std::vector<std::int64_t> updates(problem_.devices.size(), 0);
  for (std::size_t unit = devices.size(); unit-- > 0;) {
    const Times& own = times(unit, devices[unit]);
    sum += own.forward + own.backward;
    pass(own, index(devices[unit]), updates);
  }
  for (const Traffic& pair : traffic_) sum += transfer_ns(pair, devices[pair.first], devices[pair.second]);
  return sum + *std::max_element(updates.begin(), updates.end());
}

std::int64_t UnitCosts::bytes_over(std::span<const DeviceId> devices) const {
  std::vector<std::int64_t> all(problem_.devices.size() * kMoments, 0);
  for (std::size_t unit = 0; unit < devices.size(); ++unit) {
    std::int64_t* on = &all[index(devices[unit]) * kMoments];
    const auto own = live(unit);
    for (std::size_t m = 0; m < kMoments; ++m) on[m] += own[m];
  }
  std::int64_t over = 0;
  for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
    const std::int64_t peak = *std::max_element(&all[d * kMoments], &all[d * kMoments] + kMoments);
    over += std::max<std::int64_t>(0, peak - capacity(static_cast<DeviceId>(d)));
  }
  return over;
}

}  // namespace emplace
