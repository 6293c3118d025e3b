#include "launcher/settings/schedule_worlds.h"

#include <algorithm>
#include <utility>

#include "heuristics/placing_units.h"
#include "heuristics/weight_groups.h"

namespace emplace::launcher {
namespace {

void add_world(std::vector<policy::ScheduleWorld>& worlds, const Problem& problem,
               const LoweredGraph& lowered, const PlacingUnits& granularity) {
  PlacingUnits units = units_with_state(granularity, lowered);
  worlds.emplace_back(lowered, problem.devices, problem.costs,
                      policy::ScheduleUnits{std::move(units.unit_of_op), std::move(units.allowed),
                                            std::move(units.live_bytes)});
}

}  // namespace

std::vector<policy::ScheduleWorld> schedule_worlds(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<policy::ScheduleWorld> worlds;
  auto all = placing_granularities(problem, lowered);
  std::reverse(all.begin(), all.end());
  for (const PlacingUnits& each : all) add_world(worlds, problem, lowered, each);
  return worlds;
}

std::vector<policy::ScheduleWorld> learning_worlds(const Problem& problem, const LoweredGraph& lowered) {
  std::vector<policy::ScheduleWorld> worlds = schedule_worlds(problem, lowered);
  const std::size_t coarsest = worlds.front().num_choices();
  std::vector<policy::ScheduleWorld> weights;
  add_world(weights, problem, lowered, group_units(problem, lowered, weight_groups(problem)));
  if (weights.front().num_choices() < coarsest) worlds.insert(worlds.begin(), std::move(weights.front()));
  return worlds;
}

}  // namespace emplace::launcher
