#pragma once
/// A training graph as data-parallel replicas ("towers") of a part of the batch each, with the exchange of
/// their gradients: another graph that does the same work.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

struct TowersOptions {
  std::size_t towers = 2;
  /// True: each tower has all parameters and applies the summed gradient itself. False: parameters are in one
  /// place, the towers read them from there, and there the update is made.
  bool mirrored = true;
  /// True: gradients are summed over the towers before the one update. False (needs mirrored == false): each
  /// tower's gradient is applied by itself, in no order.
  bool synchronous = true;
};

/// The transformed graph, in the issue order of the original with the towers' ops side by side.
struct TowersGraph {
  static constexpr std::int32_t kNone = -1;

  OpGraph graph;
  std::vector<OpId> original;  ///< [ops] what it is a copy of; for a sum of gradients its first update op
  std::vector<std::int32_t> tower;  ///< [ops] whose step it belongs to; kNone: everybody's
  std::vector<bool>
      on_server;  ///< [ops] parameters, sums and updates in one place; else on the tower's device
  std::int64_t batch = 0, tower_batch = 0;
};

/// What depends on the inputs is divided: batch / towers (rounded up) of a tensor's dimension that is the
/// batch or a multiple of it, and so much of an op's flops or measured time. Parameters, gradients of
/// parameters (what an update reads, and the sums that lead there) and what is made of parameters alone keep
/// their size. Errors: kNoPlacement if the graph does not say its batch (meta.batch) or there are fewer
/// samples than towers; kInvalid if `synchronous` and `mirrored` contradict each other. O(towers × graph).
Result<TowersGraph> towers_graph(const OpGraph& graph, TowersOptions options);

}  // namespace emplace
