#include "solver/partitioners/simple_methods.h"

namespace emplace {

Result<Answer> SingleDevice::find(const Problem& problem, Executor& executor) const {
  Best best{problem, executor};
  for (const DeviceId device : devices_of_kind(problem.devices, kind_)) {
    EMPLACE_TRY(best.offer(Placement(problem.graph.num_ops(), device)));
  }
  return std::move(best).take();
}

}  // namespace emplace
