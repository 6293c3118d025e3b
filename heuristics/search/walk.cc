#include "heuristics/search/walk.h"

#include <algorithm>
#include <cmath>

#include "heuristics/methods.h"

namespace emplace {
namespace {

constexpr std::uint64_t kStep = std::uint64_t{1} << 32;  // Streams apart from those of `random`.

}  // namespace

MoveMix moves_for(Objective objective) {
  if (objective == Objective::kStepTime) return {};
  if (objective == Objective::kLatency) return {40, 10, 15, 0, 10, 60};
  return {60, 15, 0, 0, 10, 75};
}

Walker::Walker(const Level& level, Search& search, MovingCost& cost, std::uint64_t stream)
    : level_{level},
      search_{search},
      cost_{cost},
      mix_{moves_for(search.problem().objective)},
      rng_{search.problem().seed, Purpose::kHeuristic, kStep + stream},
      fast_{fast_devices(search.problem().devices)},
      reached_(level.size(), 0),
      window_end_{static_cast<std::uint32_t>(level.size())} {}

Result<Unit> Walker::start(const Placement& start) {
  const std::vector<double> weight = op_weights(search_.problem());
  Placement placement = start;
  device_.assign(level_.size(), DeviceId{});
  std::vector<double> time(search_.problem().devices.size());
  for (std::uint32_t unit = 0; unit < level_.size(); ++unit) {
    std::fill(time.begin(), time.end(), 0.0);
    for (const std::uint32_t op : level_.ops[unit]) time[index(start[op])] += weight[op] + 1;
    DeviceId most =
        level_.allowed[unit].empty() ? start[level_.ops[unit].front()] : level_.allowed[unit].front();
    for (const DeviceId device : level_.allowed[unit]) {
      if (time[index(device)] > time[index(most)]) most = device;
    }
    device_[unit] = most;
    for (const std::uint32_t op : level_.ops[unit]) placement[op] = most;
  }
  search_.problem().constraints.repair(placement);  // Units without a device in common stay where they may.
  cost_.start(placement);
  changed_.clear();
  return look();
}

Result<Unit> Walker::look() {
  const auto standing = search_.look(cost_);
  if (!standing) return standing.error();
  standing_ = *standing;
  return Unit{};
}

void Walker::put(std::uint32_t unit, DeviceId device) {
  device_[unit] = device;
  for (const std::uint32_t op : level_.ops[unit]) cost_.move(op, device);
}

/// If that changes anything and is allowed.
void Walker::move(std::uint32_t unit, DeviceId device) {
  if (device_[unit] == device || level_.place[unit] < window_begin_ || level_.place[unit] >= window_end_)
    return;
  const auto& allowed = level_.allowed[unit];
  if (std::find(allowed.begin(), allowed.end(), device) == allowed.end()) return;
  changed_.emplace_back(unit, device_[unit]);
  put(unit, device);
}

void Walker::take_back() {
  for (auto it = changed_.rbegin(); it != changed_.rend(); ++it) put(it->first, it->second);
  changed_.clear();
}

void Walker::restore(const std::vector<DeviceId>& devices, const Standing& standing) {
  for (std::uint32_t at = window_begin_; at < window_end_; ++at)
    move(level_.order[at], devices[level_.order[at]]);
  settle();
  standing_ = standing;
}

Result<Unit> Walker::walk(const Slot& slot, Cooling cooling) {
  if (level_.movable.empty()) return Unit{};
  // Clocks are asked now and then; a proposal that changes nothing is a step too, so that walks end.
  constexpr std::uint32_t kSteps = 16;
  double temperature = cooling.first;
  std::uint64_t idle = 0;
  for (std::uint32_t step = 0;; ++step) {
    if (step % kSteps == 0 || search_.used_up() || search_.problem().objective == Objective::kStepTime) {
      const double progress = slot.progress();
      if (progress >= 1 || idle > 1000 * kSteps) return Unit{};
      temperature = cooling.first * std::pow(cooling.last / cooling.first, progress);
    }
    changed_.clear();
    propose();
    ++idle;
    if (changed_.empty()) continue;
    idle = 0;
    const Standing before = standing_;
    if (auto looked = look(); !looked) return looked;
    const double worse = standing_.energy - before.energy;
    if (worse <= 0 || rng_.uniform_double() < std::exp(-worse / temperature)) continue;
    take_back();
    standing_ = before;
  }
}

std::uint32_t Walker::any_unit() {
  if (window_end_ - window_begin_ < level_.size())
    return level_.order[window_begin_ + below(window_end_ - window_begin_)];
  return level_.movable[below(level_.movable.size())];
}

/// Where a neighbour stands, or mostly among the fast ones: a move to the CPU is seldom better than none.
DeviceId Walker::any_device(std::uint32_t unit) {
  const auto& allowed = level_.allowed[unit];
  if (allowed.empty()) return device_[unit];
  if (mix_.near > 0) {
    const auto& near = level_.neighbours[unit];
    if (!near.empty() && below(100) < mix_.near) return device_[near[below(near.size())]];
    return allowed[below(allowed.size())];
  }
  for (int attempt = 0; attempt < 8; ++attempt) {
    const bool everywhere = below(10) == 0;
    const DeviceId device = everywhere ? allowed[below(allowed.size())] : fast_[below(fast_.size())];
    if (device != device_[unit]) return device;
  }
  return allowed[below(allowed.size())];
}

/// Short ranges are likelier than long ones, up to all of it.
std::size_t Walker::length_up_to(std::size_t most) {
  const double exponent = rng_.uniform_double();
  return std::clamp(static_cast<std::size_t>(std::pow(static_cast<double>(most), exponent) + 0.5),
                    std::size_t{1}, most);
}

/// A range of at most `most` of `units` that holds the one at `at`.
void Walker::move_range(const std::vector<std::uint32_t>& units, std::size_t at, std::size_t most,
                        DeviceId device) {
  const std::size_t length = length_up_to(most), back = below(length);
  const std::size_t begin = at > back ? at - back : 0;
  for (std::size_t i = begin; i < std::min(begin + length, units.size()); ++i) move(units[i], device);
}

void Walker::flood(std::uint32_t unit, DeviceId device) {
  const DeviceId from = device_[unit];
  ++floods_;
  open_.assign(1, unit);
  reached_[unit] = floods_;
  for (std::size_t left = length_up_to(std::max<std::size_t>(1, level_.size() / 2));
       left > 0 && !open_.empty(); --left) {
    const std::size_t pick = below(open_.size());
    const std::uint32_t next = open_[pick];
    open_[pick] = open_.back();
    open_.pop_back();
    move(next, device);
    for (const std::uint32_t near : level_.neighbours[next]) {
      if (reached_[near] == floods_ || device_[near] != from) continue;
      reached_[near] = floods_;
      open_.push_back(near);
    }
  }
}

void Walker::propose() {
  const std::uint32_t unit = any_unit();
  const DeviceId device = any_device(unit);
  std::uint32_t kind = below(100);
  const auto is = [&](std::uint32_t share) { return kind < share || (kind -= share, false); };
  if (is(mix_.unit)) {
    move(unit, device);
  } else if (is(mix_.swap)) {
    const std::uint32_t other = any_unit();
    const DeviceId here = device_[unit], there = device_[other];
    move(unit, there);
    move(other, here);
  } else if (is(mix_.neighbours)) {
    move(unit, device);
    for (const std::uint32_t near : level_.neighbours[unit]) move(near, device);
  } else if (is(mix_.alike)) {
    const auto& alike = level_.alike[level_.label[unit]];
    move_range(alike, level_.place_alike[unit], alike.size(), device);
  } else if (is(mix_.flood)) {
    flood(unit, device);
  } else {
    move_range(level_.order, level_.place[unit], std::max<std::size_t>(1, level_.size() / 4), device);
  }
}

}  // namespace emplace
