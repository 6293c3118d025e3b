#pragma once
/// Transforms a training graph into data-parallel replicas ("towers"), each with a part of the batch, and the
/// exchange of their gradients: another graph that does the same work.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

struct TowersOptions {
  std::size_t towers = 2;
  /// True: each tower has all parameters and applies the summed gradient itself. False: parameters and their
  /// update are in one place, from which the towers read.
  bool mirrored = true;
  /// True: gradients are summed over the towers before the one update. False (requires mirrored == false):
  /// each tower's gradient is applied separately, in no order.
  bool synchronous = true;
};

/// The transformed graph, in the issue order of the original with the ops of the towers side by side.
struct TowersGraph {
  static constexpr std::int32_t kNone = -1;

  OpGraph graph;
  /// [ops] Op that it is a copy of; for a sum of gradients, its first update op.
  std::vector<OpId> original;
  std::vector<std::int32_t> tower;  ///< [ops] Tower that executes it; kNone: shared.
  /// [ops] True for parameters, sums and updates in one place; false: on the tower's device.
  std::vector<bool> on_server;
  std::int64_t batch = 0, tower_batch = 0;
};

/// Divides whatever depends on the inputs: a tensor dimension that is the batch or a multiple of it becomes
/// batch / towers (rounded up), and flops or measured time of an op shrink likewise. Parameters, gradients of
/// parameters (the inputs of updates, and the sums that lead to them) and tensors derived from parameters
/// only keep their size. Errors: kNoPlacement if the graph has no batch (meta.batch) or fewer samples than
/// towers; kInvalid if `synchronous` and `mirrored` contradict each other. O(towers × graph).
Result<TowersGraph> towers_graph(const OpGraph& graph, TowersOptions options);

}  // namespace emplace
