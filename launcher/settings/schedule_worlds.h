#pragma once
/// A problem as input of the scheduler policy.

#include <vector>

#include "graph/lowering.h"
#include "policy/placers/schedule_world.h"
#include "solver/method.h"

namespace emplace::launcher {

/// The worlds of a problem, one per granularity: scopes of all time steps together, scopes, classes. Coarse
/// ones come first. @pre fewer than 255 devices.
std::vector<policy::ScheduleWorld> schedule_worlds(const Problem& problem, const LoweredGraph& lowered);

/// The same for a policy that learns on the graph, with one more granularity if it has fewer units than there
/// are classes: weights together with the ops that read them and with their gradients. Placements that fit
/// are easier to find there. It comes first if it has the fewest units, else last.
std::vector<policy::ScheduleWorld> learning_worlds(const Problem& problem, const LoweredGraph& lowered);

/// The same for a plan: the weights come first, and only where the graph does not fit on every device.
std::vector<policy::ScheduleWorld> planning_worlds(const Problem& problem, const LoweredGraph& lowered);

}  // namespace emplace::launcher
