#include "launcher/settings/schedule_worlds.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "heuristics/placing_units.h"
#include "heuristics/weight_groups.h"
#include "placement/energy.h"

namespace emplace::launcher {
namespace {

policy::ScheduleWorld world_of(const Problem& problem, const LoweredGraph& lowered, PlacingUnits units) {
  return {lowered, problem.devices, problem.costs,
          policy::ScheduleUnits{std::move(units.unit_of_op), std::move(units.allowed),
                                std::move(units.live_bytes)}};
}

PlacingUnits weight_units(const Problem& problem, const LoweredGraph& lowered) {
  return units_with_state(group_units(problem, lowered, weight_groups(problem)), lowered);
}

/// True if the smallest device has no room for the whole graph.
bool is_tight(const Problem& problem, const PlacingUnits& units) {
  constexpr std::size_t kMoments = PlacingUnits::kMoments;
  std::vector<std::int64_t> alive(kMoments);
  for (std::size_t i = 0; i < units.live_bytes.size(); ++i) alive[i % kMoments] += units.live_bytes[i];
  return *std::max_element(alive.begin(), alive.end()) > smallest_memory(problem.devices);
}

}  // namespace

std::vector<policy::ScheduleWorld> schedule_worlds(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<policy::ScheduleWorld> worlds;
  auto all = placing_granularities(problem, lowered);
  std::reverse(all.begin(), all.end());
  for (const PlacingUnits& each : all)
    worlds.push_back(world_of(problem, lowered, units_with_state(each, lowered)));
  return worlds;
}

std::vector<policy::ScheduleWorld> learning_worlds(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<policy::ScheduleWorld> worlds = schedule_worlds(problem, lowered);
  policy::ScheduleWorld weights = world_of(problem, lowered, weight_units(problem, lowered));
  // Recorded episodes refer to granularities by position, and older programs added the weights only where
  // they are fewest.
  if (weights.num_choices() < worlds.front().num_choices()) {
    worlds.insert(worlds.begin(), std::move(weights));
  } else if (weights.num_choices() < worlds.back().num_choices()) {
    worlds.push_back(std::move(weights));
  }
  return worlds;
}

std::vector<policy::ScheduleWorld> planning_worlds(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<policy::ScheduleWorld> worlds = schedule_worlds(problem, lowered);
  PlacingUnits units = weight_units(problem, lowered);
  if (!is_tight(problem, units)) return worlds;
  policy::ScheduleWorld weights = world_of(problem, lowered, std::move(units));
  if (weights.num_choices() < worlds.back().num_choices()) worlds.insert(worlds.begin(), std::move(weights));
  return worlds;
}

}  // namespace emplace::launcher
