#include "policy/placers/schedule_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace emplace::policy {
namespace {

constexpr std::int64_t kShortestGap = 2'000;  // [ns]
constexpr std::size_t kScheduleGaps = 16;

}  // namespace

ScheduleWalk::ScheduleWalk(const ScheduleWorld& world, std::span<const std::uint8_t> start,
                           std::span<const double> reserved)
    : world_{world},
      start_{start.begin(), start.end()},
      devices_{world.num_devices()},
      features_(kFeatures, static_cast<Eigen::Index>(devices_)),
      options_(devices_),
      device_of_unit_(world.num_units(), ScheduleWorld::kNowhere),
      end_of_kernel_(world.unit_of_kernel_.size()),
      arrival_ns_(world.bytes_.size() * devices_, -1),
      held_until_(world.bytes_.size() * devices_),
      busy_(devices_, IdleGaps{kShortestGap, kScheduleGaps}),
      engines_(devices_, IdleGaps{kShortestGap, kScheduleGaps}),
      committed_(devices_ * ScheduleUnits::kMoments),
      left_(world.all_live_),
      load_ns_(devices_),
      used_(devices_),
      from_(devices_),
      to_(devices_) {
  EMPLACE_CHECK(start_.empty() || start_.size() == world.num_units(), "one device for each unit");
  limit_ = world.memory_;
  for (std::size_t d = 0; d < reserved.size(); ++d) limit_[d] -= static_cast<float>(reserved[d]);
  advance();
}

std::int64_t ScheduleWalk::ready_ns(std::size_t device) const {
  std::int64_t ready = 0;
  for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
    const std::int64_t made = read.maker < 0 ? 0 : end_of_kernel_[static_cast<std::size_t>(read.maker)];
    const std::uint8_t from = device_of_unit_[read.owner_unit];
    if (from == device || from == ScheduleWorld::kNowhere) {
      ready = std::max(ready, made);
    } else if (const std::int64_t there = arrival_ns_[read.buffer * devices_ + device]; there >= 0) {
      ready = std::max(ready, there);
    } else {
      const std::int64_t takes = transfer_ns(from, device, world_.bytes_[read.buffer]);
      ready = std::max(ready, engines_[from].start(made, takes) + takes);
    }
  }
  return ready;
}

void ScheduleWalk::settle(std::size_t unit, std::size_t device) {
  if (!world_.allowed_[unit].test(device)) {
    device = 0;
    while (!world_.allowed_[unit].test(device)) ++device;
  }
  device_of_unit_[unit] = static_cast<std::uint8_t>(device);
  const float* const live = &world_.live_[unit * ScheduleUnits::kMoments];
  float* const committed = &committed_[device * ScheduleUnits::kMoments];
  for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m) {
    committed[m] += live[m];
    left_[m] -= live[m];
  }
  load_ns_[device] += world_.unit_ns(device, unit);
  ++used_[device];
}

void ScheduleWalk::hold_copy(std::size_t buffer, std::size_t device, std::size_t until) {
  std::uint16_t& held = held_until_[buffer * devices_ + device];
  for (std::size_t m = std::max(held, world_.alive_from_[buffer]); m <= until; ++m)
    committed_[device * ScheduleUnits::kMoments + m] += static_cast<float>(world_.bytes_[buffer]);
  held = std::max(held, static_cast<std::uint16_t>(until + 1));
}

void ScheduleWalk::run_kernel() {
  const std::size_t device = device_of_unit_[world_.unit_of_kernel_[kernel_]];
  std::int64_t ready = 0;
  for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
    if (device_of_unit_[read.owner_unit] == ScheduleWorld::kNowhere) settle(read.owner_unit, device);
    const std::size_t from = device_of_unit_[read.owner_unit];
    std::int64_t there = read.maker < 0 ? 0 : end_of_kernel_[static_cast<std::size_t>(read.maker)];
    if (from != device) {
      std::int64_t& arrives = arrival_ns_[read.buffer * devices_ + device];
      if (arrives < 0) {
        const std::int64_t takes = transfer_ns(from, device, world_.bytes_[read.buffer]);
        const std::int64_t begin = engines_[from].start(there, takes);
        arrives = begin + takes;
        engines_[from].fill(begin, arrives);
      }
      hold_copy(read.buffer, device, read.until);
      there = arrives;
    }
    ready = std::max(ready, there);
  }
  const auto cost = static_cast<std::int64_t>(world_.time_ns(device, kernel_));
  const std::int64_t begin = busy_[device].start(ready, cost);
  busy_[device].fill(begin, begin + cost);
  end_of_kernel_[kernel_] = begin + cost;
  end_ns_ = std::max(end_ns_, begin + cost);
  longest_ns_ = std::max(longest_ns_, static_cast<double>(begin) + world_.rank_ns_[kernel_]);
}

void ScheduleWalk::advance() {
  while (!done() && device_of_unit_[unit()] != ScheduleWorld::kNowhere) {
    run_kernel();
    ++kernel_;
  }
}

void ScheduleWalk::evaluate() {
  const std::size_t unit = this->unit();
  const DeviceMask& allowed = world_.allowed_[unit];
  const float* const live = &world_.live_[unit * ScheduleUnits::kMoments];
  candidates_.clear();
  open_.clear();
  for (std::size_t d = 0; d < devices_; ++d) {
    bool closed = !allowed.test(d);
    for (std::size_t other = 0; !closed && used_[d] == 0 && other < d; ++other)
      closed = used_[other] == 0 && world_.are_twins(other, d);
    if (!closed) candidates_.push_back(static_cast<std::uint8_t>(d));
  }

  // Memory, with that of state that follows the unit.
  needed_.assign(live, live + ScheduleUnits::kMoments);
  for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
    if (read.owner_unit == unit || device_of_unit_[read.owner_unit] != ScheduleWorld::kNowhere) continue;
    for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m)
      needed_[m] += world_.live_[read.owner_unit * ScheduleUnits::kMoments + m];
  }
  float pressure = 0, largest = 0;
  for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m) {
    float free = 0;
    for (std::size_t d = 0; d < devices_; ++d)
      free += std::max(0.0f, limit_[d] - committed_[d * ScheduleUnits::kMoments + m]);
    pressure = std::max(pressure, left_[m] / std::max(1.0f, free));
    largest = std::max(largest, needed_[m]);
  }
  std::uint8_t roomiest = candidates_.front();
  for (const std::uint8_t d : candidates_) {
    float free = std::numeric_limits<float>::infinity();
    const float* const committed = &committed_[d * ScheduleUnits::kMoments];
    with_copies_ = needed_;
    for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
      const std::uint8_t from = device_of_unit_[read.owner_unit];
      if (from == d || from == ScheduleWorld::kNowhere) continue;
      const std::uint16_t held = held_until_[read.buffer * devices_ + d];
      for (std::size_t m = std::max(held, world_.alive_from_[read.buffer]); m <= read.until; ++m)
        with_copies_[m] += static_cast<float>(world_.bytes_[read.buffer]);
    }
    for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m)
      free = std::min(free, limit_[d] - committed[m] - with_copies_[m]);
    options_[d].free_bytes = static_cast<double>(free);
    if (free >= 0) open_.push_back(d);
    if (options_[d].free_bytes > options_[roomiest].free_bytes) roomiest = d;
  }
  if (open_.empty()) {
    overflowed_ = true;
    open_.push_back(roomiest);
  }

  // Traffic with units that have a device.
  for (std::size_t d = 0; d < devices_; ++d) from_[d] = to_[d] = {};
  double all_in = 0, all_out = 0, largest_ns = 0;
  std::uint8_t largest_at = ScheduleWorld::kNowhere;
  const auto add = [&](Traffic& sum, const ScheduleWorld::Neighbour& each) {
    sum.bytes += static_cast<double>(each.bytes);
    sum.copies += static_cast<double>(each.copies);
    sum.mean_ns += static_cast<double>(each.mean_ns);
  };
  for (const ScheduleWorld::Neighbour& each : world_.sources(unit)) {
    const std::uint8_t d = device_of_unit_[each.unit];
    all_in += static_cast<double>(each.mean_ns);
    if (d == ScheduleWorld::kNowhere) continue;
    add(from_[d], each);
    if (static_cast<double>(each.mean_ns) > largest_ns) {
      largest_ns = static_cast<double>(each.mean_ns);
      largest_at = d;
    }
  }
  for (const ScheduleWorld::Neighbour& each : world_.targets(unit)) {
    const std::uint8_t d = device_of_unit_[each.unit];
    all_out += static_cast<double>(each.mean_ns);
    if (d != ScheduleWorld::kNowhere) add(to_[d], each);
  }

  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  double first_end = kInfinity, first_ready = kInfinity, least_cut = kInfinity, least_load = kInfinity;
  for (const std::uint8_t d : open_) {
    Option& option = options_[d];
    const auto cost = static_cast<std::int64_t>(world_.time_ns(d, kernel_));
    option.ready_ns = ready_ns(d);
    option.start_ns = busy_[d].start(option.ready_ns, cost);
    option.end_ns = option.start_ns + cost;
    option.load_ns = load_ns_[d] + world_.unit_ns(d, unit);
    option.cut_ns = 0;
    for (std::size_t other = 0; other < devices_; ++other) {
      if (other == d) continue;
      const std::size_t in = other * devices_ + d, out = d * devices_ + other;
      option.cut_ns +=
          from_[other].bytes * world_.ns_per_byte_[in] + from_[other].copies * world_.latency_ns_[in] +
          to_[other].bytes * world_.ns_per_byte_[out] + to_[other].copies * world_.latency_ns_[out];
    }
    first_end = std::min(first_end, static_cast<double>(option.end_ns));
    first_ready = std::min(first_ready, static_cast<double>(option.ready_ns));
    least_cut = std::min(least_cut, option.cut_ns);
    least_load = std::min(least_load, option.load_ns);
  }

  const double ideal = world_.ideal_ns_, end = std::max(1.0, static_cast<double>(end_ns_));
  const double scale = world_.best_ns_[unit] + world_.transfer_ns_[unit] + 1;
  float most_memory = 1;
  double used = 0;
  for (std::size_t d = 0; d < devices_; ++d) {
    most_memory = std::max(most_memory, world_.memory_[d]);
    used += used_[d] > 0 ? 1 : 0;
  }
  const double best_ns = std::max(1.0, world_.best_ns_[unit]);
  for (std::size_t n = 0; n < open_.size(); ++n) {
    const std::size_t d = open_[n];
    const Option& option = options_[d];
    auto column = features_.col(static_cast<Eigen::Index>(n));
    Eigen::Index row = 0;
    const auto put = [&](double value) { column[row++] = static_cast<float>(std::clamp(value, -8.0, 8.0)); };
    const auto at_end = static_cast<double>(option.end_ns);
    put(log_ratio((at_end - first_end) / scale));
    put(log_ratio(50 * (at_end - first_end) / ideal));
    put(log_ratio((static_cast<double>(option.ready_ns) - first_ready) / scale));
    put(log_ratio(static_cast<double>(option.start_ns - option.ready_ns) / scale));
    put(std::log(std::max(1.0, world_.unit_ns(d, unit)) / best_ns));
    put(log_ratio(option.load_ns / ideal));
    put(log_ratio(3 * (option.load_ns - least_load) / ideal));
    put(static_cast<double>(busy_[d].end_ns()) / end);
    put(log_ratio(option.cut_ns / scale));
    put(log_ratio((option.cut_ns - least_cut) / scale));
    put(log_ratio(50 * (option.cut_ns - least_cut) / ideal));
    put(all_in > 0 ? from_[d].mean_ns / all_in : 0);
    put(all_out > 0 ? to_[d].mean_ns / all_out : 0);
    put(last_ == d ? 1 : 0);
    put(largest_at == d ? 1 : 0);
    put(std::clamp(option.free_bytes / static_cast<double>(std::max(1.0f, limit_[d])), -1.0, 1.0));
    put(static_cast<double>(std::min(2.0f, pressure)));
    put(used_[d] > 0 ? 1 : 0);
    put(std::log(world_.speed_[d]));
    put(static_cast<double>(world_.memory_[d] / most_memory));
    put(log_ratio(20 * (static_cast<double>(option.start_ns) + world_.rank_ns_[kernel_] - longest_ns_) /
                  ideal));
    put(!start_.empty() && start_[unit] == d ? 1 : 0);
    put(start_.empty() ? 0 : 1);
    put(world_.is_cpu_[d] ? 1 : 0);
    put(decided_ > 0 ? static_cast<double>(used_[d]) / static_cast<double>(decided_) : 0);
    put(used / static_cast<double>(devices_));
    put(std::min(
        1.0, static_cast<double>(largest) / std::max(1.0, option.free_bytes + static_cast<double>(largest))));
    put(static_cast<double>(kernel_) / static_cast<double>(world_.unit_of_kernel_.size()));
    EMPLACE_CHECK(row == kFeatures, "every feature of a device has a row");
  }
}

void ScheduleWalk::take(std::size_t device) {
  settle(unit(), device);
  ++decided_;
  last_ = static_cast<std::uint8_t>(device);
  advance();
}

}  // namespace emplace::policy
