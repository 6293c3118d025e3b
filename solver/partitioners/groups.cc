#include "solver/partitioners/groups.h"

namespace emplace {

std::vector<double> op_weights(const Problem& problem) {
  const auto row = problem.costs.row_ns(fast_devices(problem.devices).front());
  return {row.begin(), row.end()};
}

Grouping placement_groups(const Problem& problem, std::size_t wanted) {
  // Without scopes only the declared classes are known; merging then follows the traffic.
  const bool scoped = problem.graph.num_groups() > 1;
  const Grouping scopes = scoped ? scope_groups(problem.graph) : colocation_groups(problem.graph);
  return merge_small_groups(problem.graph, scopes, sum_by_group(scopes, op_weights(problem)), wanted);
}

}  // namespace emplace
