#pragma once
/// Groups of ops that methods place together, and the weights by which they are cut and merged.

#include <cstddef>
#include <vector>

#include "graph/grouping.h"
#include "solver/method.h"

namespace emplace {

/// Groups used by `random` and `round-robin`: scopes (declared classes if the graph has none), merged by
/// traffic to at most `wanted`.
Grouping placement_groups(const Problem& problem, std::size_t wanted = 256);
/// [ops] Cost on the first fast device [ns], for cutting and merging by cost.
std::vector<double> op_weights(const Problem& problem);

}  // namespace emplace
