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

ScheduleWalk::ScheduleWalk(const ScheduleWorld& world, const ScheduleStart* start,
                           std::span<const double> reserved, const DeviceMask& devices)
    : world_{world},
      start_{start},
      preferred_{devices},
      devices_{world.num_devices()},
      features_(kFeatures, static_cast<Eigen::Index>(devices_)),
      options_(devices_),
      device_of_unit_(world.num_units(), ScheduleWorld::kNowhere),
      end_of_kernel_(world.num_kernels()),
      arrival_ns_(world.num_buffers() * devices_, -1),
      held_until_(world.num_buffers() * devices_),
      busy_(devices_, IdleGaps{kShortestGap, kScheduleGaps}),
      engines_(devices_, IdleGaps{kShortestGap, kScheduleGaps}),
      committed_(devices_ * ScheduleUnits::kMoments),
      left_(world.all_live().begin(), world.all_live().end()),
      needed_(ScheduleUnits::kMoments),
      with_copies_(ScheduleUnits::kMoments),
      load_ns_(devices_),
      start_left_ns_(devices_),
      used_(devices_),
      from_(devices_),
      to_(devices_),
      start_from_(devices_),
      start_to_(devices_) {
  EMPLACE_CHECK(start == nullptr || start->device_of_unit.size() == world.num_units(),
                "one device for each unit");
  for (std::size_t d = 0; d < devices_; ++d) {
    limit_.push_back(world.memory(d));
    most_memory_ = std::max(most_memory_, static_cast<double>(world.memory(d)));
    log_speed_.push_back(static_cast<float>(std::log(world.speed(d))));
  }
  for (std::size_t d = 0; d < reserved.size(); ++d) limit_[d] -= static_cast<float>(reserved[d]);
  if (start != nullptr) start_committed_.resize(committed_.size());
  for (std::size_t u = 0; start != nullptr && u < world.num_units(); ++u)
    if (start->device_of_unit[u] != ScheduleWorld::kNowhere) count_start(u, 1);
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
      const std::int64_t takes = transfer_ns(from, device, world_.bytes(read.buffer));
      ready = std::max(ready, engines_[from].start(made, takes) + takes);
    }
  }
  return ready;
}

void ScheduleWalk::count_start(std::size_t unit, float sign) {
  const std::size_t device = start_->device_of_unit[unit];
  start_left_ns_[device] += static_cast<double>(sign) * world_.unit_ns(device, unit);
  const std::span<const float> live = world_.live(unit);
  float* const committed = &start_committed_[device * ScheduleUnits::kMoments];
  for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m) committed[m] += sign * live[m];
}

void ScheduleWalk::settle(std::size_t unit, std::size_t device) {
  if (!world_.allowed(unit).test(device)) {
    device = 0;
    while (!world_.allowed(unit).test(device)) ++device;
  }
  device_of_unit_[unit] = static_cast<std::uint8_t>(device);
  const std::span<const float> live = world_.live(unit);
  float* const committed = &committed_[device * ScheduleUnits::kMoments];
  for (std::size_t m = 0; m < ScheduleUnits::kMoments; ++m) {
    committed[m] += live[m];
    left_[m] -= live[m];
  }
  load_ns_[device] += world_.unit_ns(device, unit);
  if (start_ != nullptr && start_->device_of_unit[unit] != ScheduleWorld::kNowhere) count_start(unit, -1);
  ++used_[device];
}

void ScheduleWalk::hold_copy(std::size_t buffer, std::size_t device, std::size_t until) {
  std::uint16_t& held = held_until_[buffer * devices_ + device];
  for (std::size_t m = std::max(held, world_.alive_from(buffer)); m <= until; ++m)
    committed_[device * ScheduleUnits::kMoments + m] += static_cast<float>(world_.bytes(buffer));
  held = std::max(held, static_cast<std::uint16_t>(until + 1));
}

void ScheduleWalk::run_kernel() {
  const std::size_t device = device_of_unit_[world_.unit_of(kernel_)];
  std::int64_t ready = 0;
  for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
    if (device_of_unit_[read.owner_unit] == ScheduleWorld::kNowhere) settle(read.owner_unit, device);
    const std::size_t from = device_of_unit_[read.owner_unit];
    std::int64_t there = read.maker < 0 ? 0 : end_of_kernel_[static_cast<std::size_t>(read.maker)];
    if (from != device) {
      std::int64_t& arrives = arrival_ns_[read.buffer * devices_ + device];
      if (arrives < 0) {
        const std::int64_t takes = transfer_ns(from, device, world_.bytes(read.buffer));
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
  longest_ns_ = std::max(longest_ns_, static_cast<double>(begin) + world_.rank_ns(kernel_));
}

void ScheduleWalk::advance() {
  while (!done() && device_of_unit_[unit()] != ScheduleWorld::kNowhere) {
    run_kernel();
    ++kernel_;
  }
}

void ScheduleWalk::find_open() {
  constexpr auto kMoments = static_cast<Eigen::Index>(ScheduleUnits::kMoments);
  using Moments = Eigen::Map<const Eigen::ArrayXf>;
  const std::size_t unit = this->unit();
  const DeviceMask& allowed = world_.allowed(unit);
  const bool some = (allowed & preferred_).any();
  const auto moments = [&](const std::vector<float>& of, std::size_t row) {
    return Moments{of.data() + row * ScheduleUnits::kMoments, kMoments};
  };
  // Memory, with that of state that follows the unit.
  Eigen::Map<Eigen::ArrayXf> needed{needed_.data(), kMoments}, with_copies{with_copies_.data(), kMoments};
  needed = Moments{world_.live(unit).data(), kMoments};
  for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
    if (read.owner_unit == unit || device_of_unit_[read.owner_unit] != ScheduleWorld::kNowhere) continue;
    needed += Moments{world_.live(read.owner_unit).data(), kMoments};
  }
  with_copies.setZero();
  for (std::size_t d = 0; d < devices_; ++d) with_copies += (limit_[d] - moments(committed_, d)).max(0.0f);
  pressure_ = std::max(0.0f, (moments(left_, 0) / with_copies.max(1.0f)).maxCoeff());
  largest_ = needed.maxCoeff();

  const auto find = [&](bool only_preferred) {
    candidates_.clear();
    open_.clear();
    for (std::size_t d = 0; d < devices_; ++d) {
      bool closed = !allowed.test(d) || (only_preferred && !preferred_.test(d));
      for (std::size_t other = 0; !closed && used_[d] == 0 && other < d; ++other)
        closed =
            used_[other] == 0 && world_.are_twins(other, d) && (!only_preferred || preferred_.test(other));
      if (!closed) candidates_.push_back(static_cast<std::uint8_t>(d));
    }
    for (const std::uint8_t d : candidates_) {
      with_copies = needed;
      for (const ScheduleWorld::Read& read : world_.reads(kernel_)) {
        const std::uint8_t from = device_of_unit_[read.owner_unit];
        if (from == d || from == ScheduleWorld::kNowhere) continue;
        const std::uint16_t held = held_until_[read.buffer * devices_ + d];
        for (std::size_t m = std::max(held, world_.alive_from(read.buffer)); m <= read.until; ++m)
          with_copies_[m] += static_cast<float>(world_.bytes(read.buffer));
      }
      const float free = (limit_[d] - moments(committed_, d) - with_copies).minCoeff();
      options_[d].free_bytes = static_cast<double>(free);
      if (start_ != nullptr) {
        with_copies += moments(committed_, d) + moments(start_committed_, d);
        if (start_->device_of_unit[unit] == d) with_copies -= needed;
        options_[d].start_free_bytes = static_cast<double>((limit_[d] - with_copies).minCoeff());
      }
      if (free >= 0) open_.push_back(d);
      tight_ = tight_ || free < 0;
    }
  };
  if (some) find(true);
  if (open_.empty() || !some) find(false);
  if (!open_.empty()) return;
  std::uint8_t roomiest = candidates_.front();
  for (const std::uint8_t d : candidates_)
    if (options_[d].free_bytes > options_[roomiest].free_bytes) roomiest = d;
  overflowed_ = true;
  open_.push_back(roomiest);
}

/// Traffic with units that have a device, now or in `start`.
void ScheduleWalk::find_traffic() {
  const std::size_t unit = this->unit();
  for (std::size_t d = 0; d < devices_; ++d) from_[d] = to_[d] = start_from_[d] = start_to_[d] = {};
  all_in_ns_ = all_out_ns_ = 0;
  double largest_ns = 0;
  largest_at_ = ScheduleWorld::kNowhere;
  // Adds to the sums of the device that a neighbour has; returns that if it has one already.
  const auto add = [&](const ScheduleWorld::Neighbour& each, std::vector<Traffic>& now,
                       std::vector<Traffic>& later) {
    const std::uint8_t d = device_of_unit_[each.unit];
    if (d != ScheduleWorld::kNowhere) {
      now[d].add(each);
    } else if (start_ != nullptr && start_->device_of_unit[each.unit] != ScheduleWorld::kNowhere) {
      later[start_->device_of_unit[each.unit]].add(each);
    }
    return d;
  };
  for (const ScheduleWorld::Neighbour& each : world_.sources(unit)) {
    all_in_ns_ += static_cast<double>(each.mean_ns);
    const std::uint8_t d = add(each, from_, start_from_);
    if (d == ScheduleWorld::kNowhere || static_cast<double>(each.mean_ns) <= largest_ns) continue;
    largest_ns = static_cast<double>(each.mean_ns);
    largest_at_ = d;
  }
  for (const ScheduleWorld::Neighbour& each : world_.targets(unit)) {
    all_out_ns_ += static_cast<double>(each.mean_ns);
    add(each, to_, start_to_);
  }
}

void ScheduleWalk::find_options() {
  const std::size_t unit = this->unit();
  const auto cut_ns = [&](std::size_t d, const std::vector<Traffic>& from, const std::vector<Traffic>& to) {
    double sum = 0;
    for (std::size_t other = 0; other < devices_; ++other) {
      if (other == d) continue;
      const TransferLine &in = world_.line(other, d), &out = world_.line(d, other);
      if (from[other].copies > 0)
        sum += from[other].bytes * in.ns_per_byte + from[other].copies * in.latency_ns;
      if (to[other].copies > 0) sum += to[other].bytes * out.ns_per_byte + to[other].copies * out.latency_ns;
    }
    return sum;
  };
  for (const std::uint8_t d : open_) {
    Option& option = options_[d];
    const auto cost = static_cast<std::int64_t>(world_.time_ns(d, kernel_));
    const std::int64_t ready = ready_ns(d), start = busy_[d].start(ready, cost);
    option.ready_ns = static_cast<double>(ready);
    option.start_ns = static_cast<double>(start);
    option.end_ns = static_cast<double>(start + cost);
    option.load_ns = load_ns_[d] + world_.unit_ns(d, unit);
    option.unit_end_ns = option.start_ns + world_.unit_ns(d, unit);
    option.cut_ns = cut_ns(d, from_, to_);
    option.start_cut_ns = option.start_load_ns = 0;
    if (start_ == nullptr) continue;
    option.start_cut_ns = option.cut_ns + cut_ns(d, start_from_, start_to_);
    option.start_load_ns = option.load_ns + start_left_ns_[d];
    if (start_->device_of_unit[unit] == d) option.start_load_ns -= world_.unit_ns(d, unit);
  }
}

void ScheduleWalk::evaluate() {
  // 1. The open devices, and what the unit would cost on each.
  find_open();
  find_traffic();
  find_options();
  // 2. Features, one column for each open device.
  const auto n = static_cast<Eigen::Index>(open_.size());
  const Scales scales = find_scales();
  for (Eigen::Index c = 0; c < n; ++c) {
    const std::size_t d = open_[static_cast<std::size_t>(c)];
    put_costs(scales, d, features_.col(c).data());
    put_device(scales, d, features_.col(c).data());
  }
  auto logs = features_.block(0, 0, kLogRows, n).array();
  logs = logs.max(0.0f).log1p().min(8.0f);
  // 3. How much some of them count depends on the unit and on the walk.
  for (Eigen::Index c = 0; c < n; ++c) put_products(scales, features_.col(c).data());
}

/// What the features of all open devices of the current unit are measured by.
ScheduleWalk::Scales ScheduleWalk::find_scales() const {
  const std::size_t unit = this->unit();
  Scales scales;
  scales.least = options_[open_.front()];
  for (const std::uint8_t d : open_)
    for (double Option::*const each : {&Option::ready_ns, &Option::end_ns, &Option::cut_ns, &Option::load_ns,
                                       &Option::start_cut_ns, &Option::start_load_ns, &Option::unit_end_ns})
      scales.least.*each = std::min(scales.least.*each, options_[d].*each);
  scales.per_ideal = 1 / world_.ideal_ns();
  scales.per_unit = 1 / (world_.best_ns(unit) + world_.transfer_ns(unit) + 1);
  scales.best_ns = std::max(1.0, world_.best_ns(unit));
  scales.end_ns = std::max(1.0, static_cast<double>(end_ns_));
  scales.latest_ns = start_ == nullptr ? 0 : start_->latest_end_ns[kernel_];
  scales.critical = start_ == nullptr ? 0 : start_->critical[unit];
  scales.on_path = 2 * world_.features()(ScheduleFeatures::kPathRow, static_cast<Eigen::Index>(unit)) - 1;
  scales.progress =
      static_cast<float>(static_cast<double>(kernel_) / static_cast<double>(world_.num_kernels()));
  scales.pressure = std::min(2.0f, pressure_);
  return scales;
}

/// The rows before kLogRows.
void ScheduleWalk::put_costs(const Scales& scales, std::size_t device, float* f) const {
  const Option &option = options_[device], &least = scales.least;
  const double per_unit = scales.per_unit, per_ideal = scales.per_ideal, latest = scales.latest_ns;
  f[kLater] = static_cast<float>((option.end_ns - least.end_ns) * per_unit);
  f[kLaterOfAll] = static_cast<float>(50 * (option.end_ns - least.end_ns) * per_ideal);
  f[kReadyLater] = static_cast<float>((option.ready_ns - least.ready_ns) * per_unit);
  f[kWait] = static_cast<float>((option.start_ns - option.ready_ns) * per_unit);
  f[kLoaded] = static_cast<float>(option.load_ns * per_ideal);
  f[kMoreLoad] = static_cast<float>(3 * (option.load_ns - least.load_ns) * per_ideal);
  f[kCut] = static_cast<float>(option.cut_ns * per_unit);
  f[kMoreCut] = static_cast<float>((option.cut_ns - least.cut_ns) * per_unit);
  f[kMoreCutOfAll] = static_cast<float>(50 * (option.cut_ns - least.cut_ns) * per_ideal);
  f[kLonger] = static_cast<float>(20 * (option.start_ns + world_.rank_ns(kernel_) - longest_ns_) * per_ideal);
  f[kSlower] = static_cast<float>(world_.unit_ns(device, unit()) / scales.best_ns - 1);
  f[kUnitLater] = static_cast<float>(20 * (option.unit_end_ns - least.unit_end_ns) * per_ideal);
  f[kStartLoad] = static_cast<float>(3 * (option.start_load_ns - least.start_load_ns) * per_ideal);
  f[kStartCut] = static_cast<float>(50 * (option.start_cut_ns - least.start_cut_ns) * per_ideal);
  f[kStartOwnCut] = static_cast<float>((option.start_cut_ns - least.start_cut_ns) * per_unit);
  f[kTooLate] = start_ == nullptr ? 0 : static_cast<float>(50 * (option.end_ns - latest) * per_ideal);
  f[kEarly] = start_ == nullptr ? 0 : static_cast<float>(50 * (latest - option.end_ns) * per_ideal);
}

/// The rows from kLogRows to kPlain.
void ScheduleWalk::put_device(const Scales& scales, std::size_t d, float* f) const {
  const Option& option = options_[d];
  const auto of_limit = [&](double bytes) {
    return static_cast<float>(std::clamp(bytes / static_cast<double>(std::max(1.0f, limit_[d])), -1.0, 1.0));
  };
  const auto needs = static_cast<double>(largest_);
  const double start_free = start_ == nullptr ? 0 : option.start_free_bytes;
  f[kFull] = static_cast<float>(static_cast<double>(busy_[d].end_ns()) / scales.end_ns);
  f[kFrom] = all_in_ns_ > 0 ? static_cast<float>(from_[d].mean_ns / all_in_ns_) : 0;
  f[kTo] = all_out_ns_ > 0 ? static_cast<float>((to_[d].mean_ns + start_to_[d].mean_ns) / all_out_ns_) : 0;
  f[kLast] = last_ == d ? 1 : 0;
  f[kLargest] = largest_at_ == d ? 1 : 0;
  f[kFree] = of_limit(option.free_bytes);
  f[kUsed] = used_[d] > 0 ? 1 : 0;
  f[kSpeed] = log_speed_[d];
  f[kMemory] = static_cast<float>(static_cast<double>(world_.memory(d)) / most_memory_);
  f[kAtStart] = start_ != nullptr && start_->device_of_unit[unit()] == d ? 1 : 0;
  f[kCpu] = world_.is_cpu(d) ? 1 : 0;
  f[kUsedShare] = decided_ > 0 ? static_cast<float>(used_[d]) / static_cast<float>(decided_) : 0;
  f[kNeeds] = static_cast<float>(std::min(1.0, needs / std::max(1.0, option.free_bytes + needs)));
  f[kStartFree] = of_limit(start_free);
  f[kStartFull] = start_free < 0 ? 1 : 0;
}

/// The rows from kPlain on.
void ScheduleWalk::put_products(const Scales& scales, float* f) {
  float* g = f + kPlain;
  for (const Feature each : {kFree, kSlower, kNeeds, kMoreCutOfAll}) *g++ = scales.pressure * f[each];
  for (const Feature each : {kMoreLoad, kLaterOfAll}) *g++ = scales.progress * f[each];
  for (const Feature each : {kLaterOfAll, kLater, kSlower, kMoreCut}) *g++ = scales.on_path * f[each];
  for (const Feature each : {kLaterOfAll, kAtStart, kStartCut, kStartLoad, kSlower})
    *g++ = scales.critical * f[each];
  *g++ = scales.progress * f[kAtStart];
  EMPLACE_CHECK(g == f + kFeatures, "every feature of a device has a row");
}

void ScheduleWalk::take(std::size_t device) {
  settle(unit(), device);
  ++decided_;
  last_ = static_cast<std::uint8_t>(device);
  advance();
}

ScheduleStart ScheduleWalk::replay(const ScheduleWorld& world, std::span<const std::uint8_t> device_of_unit) {
  EMPLACE_CHECK(device_of_unit.size() == world.num_units(), "one device for each unit");
  DeviceMask all;
  ScheduleWalk walk{world, nullptr, {}, all.set()};
  while (!walk.done()) {
    const std::uint8_t wanted = device_of_unit[walk.unit()];
    walk.take(wanted == ScheduleWorld::kNowhere ? 0 : wanted);
  }
  ScheduleStart start;
  start.device_of_unit = walk.device_of_unit_;
  start.end_ns = walk.end_ns();
  const std::size_t kernels = walk.end_of_kernel_.size();
  // Backwards in time: a kernel must end before its readers and before the next one on its device.
  std::vector<std::pair<std::int64_t, std::uint32_t>> order(kernels);
  const auto cost = [&](std::size_t k) {
    return static_cast<std::int64_t>(world.time_ns(start.device_of_unit[world.unit_of(k)], k));
  };
  for (std::uint32_t k = 0; k < kernels; ++k) order[k] = {walk.end_of_kernel_[k] - cost(k), k};
  std::sort(order.rbegin(), order.rend());
  start.latest_end_ns.assign(kernels, start.end_ns);
  start.critical.assign(world.num_units(), 0);
  std::vector<double> next_ns(world.num_devices(), start.end_ns);
  for (const auto& [begin, k] : order) {
    const std::size_t unit = world.unit_of(k), d = start.device_of_unit[unit];
    double& latest = start.latest_end_ns[k];
    latest = std::min(latest, next_ns[d]);
    const double latest_begin = latest - static_cast<double>(cost(k));
    next_ns[d] = latest_begin;
    for (const ScheduleWorld::Read& read : world.reads(k)) {
      if (read.maker < 0) continue;
      const std::size_t from = start.device_of_unit[read.owner_unit];
      const double sent =
          from == d ? 0 : static_cast<double>(walk.transfer_ns(from, d, world.bytes(read.buffer)));
      double& before = start.latest_end_ns[static_cast<std::size_t>(read.maker)];
      before = std::min(before, latest_begin - sent);
    }
    const double slack = std::max(0.0, latest - static_cast<double>(walk.end_of_kernel_[k]));
    start.critical[unit] =
        std::max(start.critical[unit], static_cast<float>(1 - std::min(1.0, 10 * slack / start.end_ns)));
  }
  return start;
}

}  // namespace emplace::policy
