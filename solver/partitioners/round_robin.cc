#include "solver/partitioners/simple_methods.h"

#include "solver/partitioners/groups.h"

namespace emplace {

Result<Answer> RoundRobin::find(const Problem& problem, Executor& executor) const {
  const Grouping groups = placement_groups(problem);
  const std::vector<DeviceId> all = all_devices(problem.devices);
  Best best{problem, executor};
  for (const std::vector<DeviceId>& turn : {fast_devices(problem.devices), all}) {
    Placement placement;
    for (const std::uint32_t group : groups.group_of_op) placement.push_back(turn[group % turn.size()]);
    EMPLACE_TRY(best.offer(std::move(placement)));
  }
  return std::move(best).take();
}

}  // namespace emplace
