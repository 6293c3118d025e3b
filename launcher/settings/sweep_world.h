#pragma once
/// A graph and its machine as input of the sweep placer: the costs that the split models use, per group.

#include "actors/task.h"
#include "graph/grouping.h"
#include "policy/placers/sweep_walk.h"

namespace emplace::launcher {

/// Builds the input of the sweep placer. Devices of one kind have the same times, memory and host.
/// `acyclic`: see SweepWorld.
policy::SweepWorld sweep_world(const actors::TaskGraph& task, const Grouping& grouping, bool acyclic);

}  // namespace emplace::launcher
