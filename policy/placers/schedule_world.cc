#include "policy/placers/schedule_world.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

constexpr std::size_t kBins = 512;     // Bins of the schedule without transfers.
constexpr double kFastEnough = 0.125;  // Share of the fastest device's speed from which a device counts.

}  // namespace

ScheduleWorld::ScheduleWorld(const LoweredGraph& lowered, const DeviceSet& devices, const CostTable& costs,
                             ScheduleUnits units)
    : unit_of_op_{std::move(units.unit_of_op)},
      allowed_{std::move(units.allowed)},
      transfers_{devices},
      classes_{
          devices,
          costs,
          {.memory = DeviceLikeness::Memory::kFloat, .links = true, .engines = true, .choices = allowed_}} {
  const std::size_t count = devices.size(), num_units = allowed_.size();
  const std::span<const OpId> kernels = lowered.kernels();
  EMPLACE_CHECK(count < kNowhere && unit_of_op_.size() == lowered.num_ops() &&
                    units.live_bytes.size() == num_units * ScheduleUnits::kMoments,
                "sizes of the units must agree");
  std::vector<std::uint32_t> kernel_of_op(lowered.num_ops(), kNoIndex);
  for (std::uint32_t k = 0; k < kernels.size(); ++k) {
    kernel_of_op[index(kernels[k])] = k;
    unit_of_kernel_.push_back(unit_of_op_[index(kernels[k])]);
  }

  // Times.
  const std::size_t rows = costs.num_rows();
  kernel_ns_.assign(rows * kernels.size(), 0);
  unit_ns_.assign(rows * num_units, 0);
  std::vector<double> total(rows, 0);
  for (std::size_t d = 0; d < count; ++d) {
    const auto id = static_cast<DeviceId>(d);
    const std::size_t row = costs.row_of(id);
    row_of_device_.push_back(row);
    memory_.push_back(static_cast<float>(devices[id].memory_bytes));
    is_cpu_.push_back(devices.is_cpu(id));
    if (total[row] > 0) continue;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto ns = static_cast<double>(costs.ns(id, kernels[k]));
      kernel_ns_[row * kernels.size() + k] = ns;
      unit_ns_[row * num_units + unit_of_kernel_[k]] += ns;
      total[row] += ns;
    }
  }
  double least = std::numeric_limits<double>::infinity();
  for (const double each : total) least = std::min(least, each);
  least = std::max(1.0, least);
  double speeds = 0;
  for (std::size_t d = 0; d < count; ++d) {
    speed_.push_back(least / std::max(1.0, total[row_of_device_[d]]));
    speeds += speed_.back();
  }
  ideal_ns_ = least / speeds;
  best_ns_.assign(num_units, std::numeric_limits<double>::infinity());
  for (std::size_t u = 0; u < num_units; ++u)
    for (std::size_t d = 0; d < count; ++d)
      if (allowed_[u].test(d)) best_ns_[u] = std::min(best_ns_[u], unit_ns(d, u));

  std::vector<DeviceId> fast;
  for (std::size_t d = 0; d < count; ++d)
    if (count <= 2 || speed_[d] >= kFastEnough) fast.push_back(static_cast<DeviceId>(d));
  mean_ = transfers_.mean_line(fast);

  // Memory over time.
  live_.assign(units.live_bytes.begin(), units.live_bytes.end());
  all_live_.assign(ScheduleUnits::kMoments, 0);
  for (std::size_t u = 0; u < num_units; ++u)
    for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m)
      all_live_[m] += live_[u * ScheduleUnits::kMoments + m];
  const auto moment = [&](std::size_t kernel) {
    return static_cast<std::uint16_t>(kernel * ScheduleUnits::kMoments /
                                      std::max<std::size_t>(1, kernels.size()));
  };
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    bytes_.push_back(static_cast<double>(lowered.bytes(buffer)));
    const std::uint32_t maker = kernel_of_op[index(lowered.owner(buffer))];
    alive_from_.push_back(maker == kNoIndex ? std::uint16_t{0} : moment(maker));
  }

  // Reads, and traffic between units: a buffer is sent to another unit once.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<double, double>> traffic;  // Bytes, copies.
  std::vector<std::uint32_t> seen;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
    for (const BufferId buffer : lowered.reads(kernels[k])) {
      const OpId owner = lowered.owner(buffer);
      const std::uint32_t maker = kernel_of_op[index(owner)];
      std::size_t last = k;
      for (const OpId reader : lowered.readers(buffer))
        if (unit_of_op_[index(reader)] == unit_of_kernel_[k])
          last = std::max<std::size_t>(last, kernel_of_op[index(reader)]);
      reads_.push_back({static_cast<std::uint32_t>(index(buffer)), unit_of_op_[index(owner)],
                        maker == kNoIndex ? -1 : static_cast<std::int32_t>(maker), moment(last)});
    }
  }
  read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const std::uint32_t from = unit_of_op_[index(lowered.owner(BufferId{b}))];
    seen.clear();
    for (const OpId reader : lowered.readers(BufferId{b})) {
      const std::uint32_t to = unit_of_op_[index(reader)];
      if (to == from || std::find(seen.begin(), seen.end(), to) != seen.end()) continue;
      seen.push_back(to);
      auto& [bytes, copies] = traffic[{from, to}];
      bytes += bytes_[b];
      ++copies;
    }
  }
  std::vector<std::vector<Neighbour>> sources(num_units), targets(num_units);
  std::vector<double> in(num_units, 0), out(num_units, 0);
  for (const auto& [pair, sum] : traffic) {
    const double ns = sum.first * mean_.ns_per_byte + sum.second * mean_.latency_ns + 1;
    const auto bytes = static_cast<float>(sum.first), copies = static_cast<float>(sum.second);
    sources[pair.second].push_back({pair.first, bytes, copies, static_cast<float>(ns), 0});
    targets[pair.first].push_back({pair.second, bytes, copies, static_cast<float>(ns), 0});
    in[pair.second] += ns;
    out[pair.first] += ns;
  }
  for (std::size_t u = 0; u < num_units; ++u) {
    source_begin_.push_back(static_cast<std::uint32_t>(sources_.size()));
    target_begin_.push_back(static_cast<std::uint32_t>(targets_.size()));
    for (Neighbour& each : sources[u]) {
      each.weight = each.mean_ns / static_cast<float>(in[u]);
      sources_.push_back(each);
    }
    for (Neighbour& each : targets[u]) {
      each.weight = each.mean_ns / static_cast<float>(out[u]);
      targets_.push_back(each);
    }
  }
  source_begin_.push_back(static_cast<std::uint32_t>(sources_.size()));
  target_begin_.push_back(static_cast<std::uint32_t>(targets_.size()));
  transfer_ns_ = std::move(in);
  find_features(lowered);
  find_near();
}

void ScheduleWorld::find_near() {
  const std::size_t count = num_devices();
  double bytes = 1, copies = 1;
  for (const Neighbour& each : sources_) {
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
  while (near_.size() < count) {
    std::size_t best = count;
    const auto before = [&](std::size_t a, std::size_t b) {
      const double far_a = (sum_ns[a] + 1) / speed_[a], far_b = (sum_ns[b] + 1) / speed_[b];
      if (near_.empty())
        return std::tuple{-speed_[a], -memory_[a], far_a} < std::tuple{-speed_[b], -memory_[b], far_b};
      return std::tuple{far_a, -speed_[a], -memory_[a]} < std::tuple{far_b, -speed_[b], -memory_[b]};
    };
    for (std::size_t d = 0; d < count; ++d)
      if (!chosen[d] && (best == count || before(d, best))) best = d;
    chosen[best] = true;
    if (near_.empty()) std::fill(sum_ns.begin(), sum_ns.end(), 0.0);
    near_.push_back(static_cast<std::uint8_t>(best));
    for (std::size_t d = 0; d < count; ++d) sum_ns[d] += d == best ? 0 : apart_ns(d, best);
  }
}

DeviceMask ScheduleWorld::nearest_devices(std::size_t count) const {
  DeviceMask mask;
  for (std::size_t i = 0; i < std::min(count, near_.size()); ++i) mask.set(near_[i]);
  return mask;
}

void ScheduleWorld::find_features(const LoweredGraph& lowered) {
  const std::size_t num_units = allowed_.size(), num_kernels = unit_of_kernel_.size(), count = num_devices();
  const std::span<const OpId> kernels = lowered.kernels();
  const OpGraph& graph = lowered.graph();
  std::vector<double> ns(num_kernels);  // On the fastest device that is allowed.
  double work = 0;
  for (std::size_t k = 0; k < num_kernels; ++k) {
    ns[k] = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < count; ++d)
      if (allowed_[unit_of_kernel_[k]].test(d)) ns[k] = std::min(ns[k], time_ns(d, k));
    work += ns[k];
  }
  work = std::max(work, 1.0);

  // Longest paths, with transfers as likely as two of the devices differ, and without.
  double fast = 0;
  for (const double speed : speed_) fast += speed >= kFastEnough ? 1 : 0;
  const double apart = fast > 1 ? 1 - 1 / fast : 0;
  const auto crossing_ns = [&](const Read& read, std::size_t reader) {
    if (read.owner_unit == unit_of_kernel_[reader]) return 0.0;
    return apart * (mean_.latency_ns + mean_.ns_per_byte * bytes_[read.buffer]);
  };
  std::vector<double> up(num_kernels, 0), down(num_kernels, 0), start(num_kernels, 0);
  rank_ns_.assign(num_kernels, 0);
  double longest = 1, longest_sent = 1;
  for (std::size_t k = 0; k < num_kernels; ++k) {
    for (const Read& read : reads(k)) {
      if (read.maker < 0) continue;
      const auto maker = static_cast<std::size_t>(read.maker);
      start[k] = std::max(start[k], start[maker] + ns[maker]);
      down[k] = std::max(down[k], down[maker] + ns[maker] + crossing_ns(read, k));
    }
    longest = std::max(longest, start[k] + ns[k]);
  }
  for (std::size_t k = num_kernels; k-- > 0;) {
    up[k] += ns[k];
    rank_ns_[k] += ns[k];
    longest_sent = std::max(longest_sent, rank_ns_[k] + down[k]);
    for (const Read& read : reads(k)) {
      if (read.maker < 0) continue;
      const auto maker = static_cast<std::size_t>(read.maker);
      up[maker] = std::max(up[maker], up[k]);
      rank_ns_[maker] = std::max(rank_ns_[maker], rank_ns_[k] + crossing_ns(read, k));
    }
  }
  std::array<double, kBins> busy{};
  const auto bin = [&](double at) {
    return std::min(kBins - 1, static_cast<std::size_t>(at / longest * static_cast<double>(kBins)));
  };
  for (std::size_t k = 0; k < num_kernels; ++k) {
    const std::size_t first = bin(start[k]), last = bin(start[k] + ns[k]);
    for (std::size_t b = first; b <= last; ++b) busy[b] += ns[k] / static_cast<double>(last - first + 1);
  }

  struct Sums {
    double ns = 0, width = 0;
    std::array<double, 3> phase{};
    std::size_t kernels = 0, first = 0, last = 0;
    double rank = 0, up = 0, path = 0, path_sent = 0, down = std::numeric_limits<double>::infinity();
  };
  std::vector<Sums> sums(num_units);
  for (std::size_t k = 0; k < num_kernels; ++k) {
    Sums& sum = sums[unit_of_kernel_[k]];
    if (sum.kernels++ == 0) sum.first = k;
    sum.last = k;
    sum.ns += ns[k];
    sum.width += ns[k] * busy[bin(start[k] + ns[k] / 2)] / (longest / static_cast<double>(kBins));
    sum.phase[static_cast<std::size_t>(graph.phase(kernels[k]))] += ns[k];
    sum.rank = std::max(sum.rank, rank_ns_[k]);
    sum.up = std::max(sum.up, up[k]);
    sum.path = std::max(sum.path, up[k] + start[k]);
    sum.path_sent = std::max(sum.path_sent, rank_ns_[k] + down[k]);
    sum.down = std::min(sum.down, down[k]);
  }

  double all_memory = 0, largest_memory = 0, sent_ns = 0, peak = 0;
  for (std::size_t d = 0; d < count; ++d) {
    if (speed_[d] < kFastEnough && count > 1) continue;
    all_memory += static_cast<double>(memory_[d]);
    largest_memory = std::max(largest_memory, static_cast<double>(memory_[d]));
  }
  all_memory = std::max(1.0, all_memory);
  largest_memory = std::max(1.0, largest_memory);
  for (const float live : all_live_) peak = std::max(peak, static_cast<double>(live));
  for (const double each : transfer_ns_) sent_ns += each;
  double with_kernels = 0;
  for (const Sums& sum : sums) with_kernels += sum.kernels > 0 ? 1 : 0;
  num_choices_ = static_cast<std::size_t>(with_kernels);
  const double mean_ns = work / std::max(1.0, with_kernels),
               mean_kernel_ns = work / std::max<double>(1, static_cast<double>(num_kernels));
  double spread = 0;
  for (const double speed : speed_) spread += speed < 0.95 ? 1 : 0;

  features_ = Matrix::Zero(kUnitFeatures, static_cast<Eigen::Index>(num_units));
  for (std::size_t u = 0; u < num_units; ++u) {
    const Sums& sum = sums[u];
    if (sum.kernels == 0) continue;
    auto column = features_.col(static_cast<Eigen::Index>(u));
    Eigen::Index row = 0;
    const auto put = [&](double value) { column[row++] = static_cast<float>(std::clamp(value, -6.0, 6.0)); };
    const double own = std::max(1.0, sum.ns);
    double out = 0, slowest = 0, live = 0, state = std::numeric_limits<double>::infinity(), choices = 0;
    for (const Neighbour& target : targets(u)) out += static_cast<double>(target.mean_ns);
    for (std::size_t d = 0; d < count; ++d) {
      if (!allowed_[u].test(d)) continue;
      ++choices;
      slowest = std::max(slowest, unit_ns(d, u));
    }
    for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m) {
      live = std::max(live, static_cast<double>(live_[u * ScheduleUnits::kMoments + m]));
      state = std::min(state, static_cast<double>(live_[u * ScheduleUnits::kMoments + m]));
    }
    const auto n = static_cast<double>(num_kernels);
    put(std::log(own / mean_ns));
    put(std::log1p(own / ideal_ns_ * 10));
    put(log_ratio(transfer_ns_[u] / own));
    put(log_ratio(out / own));
    put(log_ratio(static_cast<double>(sources(u).size())));
    put(log_ratio(static_cast<double>(targets(u).size())));
    put(sum.rank / longest_sent);
    put(sum.down / longest_sent);
    put(sum.path_sent / longest_sent);
    put(sum.up / longest);
    put(sum.path / longest);
    put(std::log1p(10 * state / largest_memory));
    put(std::log1p(10 * live / largest_memory));
    for (const double phase : sum.phase) put(phase / own);
    put(static_cast<double>(sum.first) / n);
    put(static_cast<double>(sum.last - sum.first) / n);
    put(std::log(std::max(1.0, slowest) / std::max(1.0, best_ns_[u])) / 2);
    put(log_ratio(sum.width / own));
    put(log_ratio(mean_.latency_ns * static_cast<double>(sum.kernels) / own));
    put(log_ratio(static_cast<double>(sum.kernels)));
    put(choices / static_cast<double>(count));
    // The graph on the machine as a whole.
    put(std::log(work / longest));
    put(std::log(longest_sent / longest));
    put(std::log1p(sent_ns / work));
    put(std::log1p(mean_.latency_ns / std::max(1.0, mean_kernel_ns)));
    put(std::min(3.0, peak / all_memory));
    put(std::min(3.0, peak / largest_memory));
    put(std::log(static_cast<double>(count)));
    put(std::log(std::max(1e-3, work / ideal_ns_)));
    put(spread / static_cast<double>(count));
    put(std::log(with_kernels) / 3);
    put(std::log(n / with_kernels));
    EMPLACE_CHECK(row == kUnitFeatures, "every feature of a unit has a row");
  }
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
  std::vector<std::uint32_t> votes(num_units() * num_devices());
  for (std::size_t op = 0; op < unit_of_op_.size(); ++op)
    ++votes[unit_of_op_[op] * num_devices() + index(placement[op])];
  std::vector<std::uint8_t> chosen;
  for (std::size_t u = 0; u < num_units(); ++u) {
    std::size_t best = num_devices();
    for (std::size_t d = 0; d < num_devices(); ++d) {
      if (!allowed_[u].test(d)) continue;
      if (best == num_devices() || votes[u * num_devices() + d] > votes[u * num_devices() + best]) best = d;
    }
    chosen.push_back(static_cast<std::uint8_t>(best));
  }
  return chosen;
}

Placement ScheduleWorld::placement_of(std::span<const std::uint8_t> device_of_unit) const {
  std::vector<std::uint8_t> chosen(device_of_unit.begin(), device_of_unit.end());
  std::vector<double> free(memory_.begin(), memory_.end());
  const auto peak = [&](std::size_t unit) {
    return static_cast<double>(
        *std::max_element(live_.begin() + static_cast<std::ptrdiff_t>(unit * ScheduleUnits::kMoments),
                          live_.begin() + static_cast<std::ptrdiff_t>((unit + 1) * ScheduleUnits::kMoments)));
  };
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
