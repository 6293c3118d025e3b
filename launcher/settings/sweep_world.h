#pragma once
/// A graph and its machine as the sweep placer sees them: what the cost models of splits count, by group.

#include "actors/task.h"
#include "graph/grouping.h"
#include "policy/placers/sweep_walk.h"

namespace emplace::launcher {

/// Devices of one kind have the same times, memory and host. `no_circles` as SweepWorld says.
policy::SweepWorld sweep_world(const actors::TaskGraph& task, const Grouping& grouping, bool no_circles);

}  // namespace emplace::launcher
