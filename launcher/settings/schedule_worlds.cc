#include "launcher/settings/schedule_worlds.h"

#include <algorithm>
#include <utility>

#include "placement/energy.h"
#include "solver/partitioners/placing_units.h"
#include "solver/partitioners/weight_groups.h"

namespace emplace::launcher {
namespace {

policy::ScheduleWorld world_of(const Problem& problem, const LoweredGraph& lowered,
                               const PlacingUnits& granularity) {
  PlacingUnits units = units_with_state(granularity, lowered);
  return {lowered, problem.devices, problem.costs,
          policy::ScheduleUnits{std::move(units.unit_of_op), std::move(units.allowed),
                                std::move(units.live_bytes)}};
}

policy::ScheduleWorld world_of_weights(const Problem& problem, const LoweredGraph& lowered) {
  return world_of(problem, lowered, group_units(problem, lowered, weight_groups(problem)));
}

}  // namespace

std::vector<policy::ScheduleWorld> schedule_worlds(const Problem& problem, const LoweredGraph& lowered) {
  auto all = placing_granularities(problem, lowered);
  std::reverse(all.begin(), all.end());
  std::vector<policy::ScheduleWorld> worlds;
  worlds.reserve(all.size());
  for (const PlacingUnits& each : all) worlds.push_back(world_of(problem, lowered, each));
  return worlds;
}

std::vector<policy::ScheduleWorld> learning_worlds(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<policy::ScheduleWorld> worlds = schedule_worlds(problem, lowered);
  policy::ScheduleWorld weights = world_of_weights(problem, lowered);
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
  if (worlds.back().peak_bytes() <= static_cast<double>(smallest_memory(problem.devices))) return worlds;
  policy::ScheduleWorld weights = world_of_weights(problem, lowered);
  if (weights.num_choices() < worlds.back().num_choices()) worlds.insert(worlds.begin(), std::move(weights));
  return worlds;
}

}  // namespace emplace::launcher
