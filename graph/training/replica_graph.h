#pragma once
/// A training step on several groups of devices at once, each with its own batches, whose gradients are added
/// up before the update: data parallelism (docs/reference/pipelines.md).

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Gradients that are added up together, unless a block ends before: this number of bytes (`bucket_cap_mb` of
/// PyTorch's DistributedDataParallel), or a sixteenth of all gradients if that is less, so that most of them
/// travel during the backward pass.
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;
inline constexpr std::int64_t kBuckets = 16;

/// How replicas exchange gradients: in islands of equal size first, then between the islands.
/// [islands, replicas of an island] Each replica once. Several islands with several replicas: in three parts;
/// else all replicas exchange with all others.
using Islands = std::vector<std::vector<std::uint32_t>>;

/// The ops of all replicas. Names end in "@rK" with the number of the replica. It is an ordinary graph, whose
/// ids are a topological order.
struct ReplicaGraph {
  OpGraph graph;
  /// [ops of `graph`] The op of the original graph on whose counterpart's device it is: itself, or for what
  /// reduces gradients, the one that makes the first of them.
  std::vector<OpId> source;
  std::vector<std::uint32_t> replica;  ///< [ops of `graph`]
};

/// Adds for each bucket of gradients, in the order in which the backward pass makes them, and each replica
/// - `OP@bucket`: divides the bucket into a piece for each other replica of its island (of all islands, where
///   they have one replica each);
/// - `OP@sum`: adds up one piece from the whole island;
/// - `OP@across`: adds up a part of that from its counterparts on the other islands;
/// - `OP@gather`: joins those parts to a piece again;
/// and for each gradient a view, `OP@reduced`, which the update reads and which waits for all pieces. The ops
/// write over gradients, and what they send is received there (kReduceType), as with
/// `gradient_as_bucket_view=True` of PyTorch. @pre check_micro_batches(graph), islands of equal size.
ReplicaGraph replica_graph(const OpGraph& graph, const Islands& islands);

}  // namespace emplace
