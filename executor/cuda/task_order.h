#pragma once
#include <cstdint>
#include <vector>

#include "executor/plan/task_plan.h"
#include "placement/schedule.h"

namespace emplace::cuda {

/// In which order tasks are enqueued: by the start that the simulator gives them, and never before what they
/// wait for.
std::vector<std::uint32_t> task_order(const TaskPlan& plan, const Schedule& simulated);

}  // namespace emplace::cuda
