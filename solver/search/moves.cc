#include "solver/search/moves.h"

#include <algorithm>
#include <cmath>

#include "solver/method.h"
#include "solver/search/walk.h"

namespace emplace {
namespace {

std::uint32_t below(Walker& walker, std::size_t bound) {
  return walker.rng().below(static_cast<std::uint32_t>(bound));
}

}  // namespace

MoveMix moves_for(Objective objective) {
  if (objective == Objective::kStepTime) return {};
  if (objective == Objective::kLatency) return {40, 10, 15, 0, 10, 60};
  return {60, 15, 0, 0, 10, 75};
}

std::size_t RandomMoves::length_up_to(Walker& walker, std::size_t most) {
  const double exponent = walker.rng().uniform_double();
  const auto length = static_cast<std::size_t>(std::lround(std::pow(static_cast<double>(most), exponent)));
  return std::clamp(length, std::size_t{1}, most);
}

RandomMoves::RandomMoves(const Level& level, const Problem& problem)
    : level_{level},
      mix_{moves_for(problem.objective)},
      fast_{fast_devices(problem.devices)},
      reached_(level.size(), 0) {}

std::uint32_t RandomMoves::choose_unit(Walker& walker) {
  const std::uint32_t begin = walker.window_begin(), end = walker.window_end();
  if (end - begin < level_.size()) return level_.order[begin + below(walker, end - begin)];
  return level_.movable[below(walker, level_.movable.size())];
}

/// The device of a neighbour, or mostly a fast device: a move to the CPU seldom improves the placement.
DeviceId RandomMoves::choose_device(Walker& walker, std::uint32_t unit) {
  const auto& allowed = level_.allowed[unit];
  if (allowed.empty()) return walker.device_of(unit);
  if (mix_.near > 0) {
    const auto& near = level_.neighbours[unit];
    if (!near.empty() && below(walker, 100) < mix_.near)
      return walker.device_of(near[below(walker, near.size())]);
    return allowed[below(walker, allowed.size())];
  }
  for (int attempt = 0; attempt < 8; ++attempt) {
    const bool everywhere = below(walker, 10) == 0;
    const DeviceId device =
        everywhere ? allowed[below(walker, allowed.size())] : fast_[below(walker, fast_.size())];
    if (device != walker.device_of(unit)) return device;
  }
  return allowed[below(walker, allowed.size())];
}

/// Moves a range of at most `most` of `units` that contains the one at `at`.
void RandomMoves::move_range(Walker& walker, const std::vector<std::uint32_t>& units, std::size_t at,
                             std::size_t most, DeviceId device) const {
  const std::size_t length = length_up_to(walker, most), back = below(walker, length);
  const std::size_t begin = at > back ? at - back : 0;
  for (std::size_t i = begin; i < std::min(begin + length, units.size()); ++i) walker.move(units[i], device);
}

void RandomMoves::flood(Walker& walker, std::uint32_t unit, DeviceId device) {
  const DeviceId from = walker.device_of(unit);
  ++floods_;
  open_.assign(1, unit);
  reached_[unit] = floods_;
  for (std::size_t left = length_up_to(walker, std::max<std::size_t>(1, level_.size() / 2));
       left > 0 && !open_.empty(); --left) {
    const std::size_t pick = below(walker, open_.size());
    const std::uint32_t next = open_[pick];
    open_[pick] = open_.back();
    open_.pop_back();
    walker.move(next, device);
    for (const std::uint32_t near : level_.neighbours[next]) {
      if (reached_[near] == floods_ || walker.device_of(near) != from) continue;
      reached_[near] = floods_;
      open_.push_back(near);
    }
  }
}

void RandomMoves::propose(Walker& walker) {
  const std::uint32_t unit = choose_unit(walker);
  const DeviceId device = choose_device(walker, unit);
  std::uint32_t kind = below(walker, 100);
  const auto is = [&](std::uint32_t share) { return kind < share || (kind -= share, false); };
  if (is(mix_.unit)) {
    walker.move(unit, device);
  } else if (is(mix_.swap)) {
    const std::uint32_t other = choose_unit(walker);
    const DeviceId here = walker.device_of(unit), there = walker.device_of(other);
    walker.move(unit, there);
    walker.move(other, here);
  } else if (is(mix_.neighbours)) {
    walker.move(unit, device);
    for (const std::uint32_t near : level_.neighbours[unit]) walker.move(near, device);
  } else if (is(mix_.alike)) {
    const auto& alike = level_.alike[level_.label[unit]];
    move_range(walker, alike, level_.place_alike[unit], alike.size(), device);
  } else if (is(mix_.flood)) {
    flood(walker, unit, device);
  } else {
    move_range(walker, level_.order, level_.place[unit], std::max<std::size_t>(1, level_.size() / 4), device);
  }
}

}  // namespace emplace
