#include <utility>
#include <vector>

#include "solver/list/favourite_children.h"
#include "solver/list/list_methods.h"

namespace emplace {

Result<Answer> MSct::find(const Problem& problem, Executor& executor) const {
  const ListTask task{problem};
  EMPLACE_TRY_ASSIGN(const auto favourite, favourite_children(task));
  return best_over_reserves(task, executor,
                            [&](PartialSchedule& schedule) { list_by_earliest_start(schedule, favourite); });
}

}  // namespace emplace
