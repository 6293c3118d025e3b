#pragma once
#include <cstdint>
#include <vector>

#include "executor/plan/task_plan.h"
#include "placement/schedule.h"

namespace emplace::cuda {

/// The order in which tasks are enqueued: by simulated start time, always after the tasks they depend on.
std::vector<std::uint32_t> task_order(const TaskPlan& plan, const Schedule& simulated);

}  // namespace emplace::cuda
