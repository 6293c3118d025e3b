#pragma once
/// A training graph as the step of one of several micro-batches, whose gradients are added up before the one
/// update (docs/reference/pipelines.md).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Ends of the names of what is added for a gradient: its sum, which is state, and the op that adds to it.
inline constexpr std::string_view kGradient = "@gradient";
inline constexpr std::string_view kAccumulate = "@accumulate";

/// The graph of one micro-batch, with an op behind each gradient that adds it to the sum of its kind. The
/// update reads the sums. It is an ordinary graph, whose ids are a topological order.
struct MicroBatchGraph {
  OpGraph graph;
  /// [ops of `graph`] The op of the original graph whose device it shares: itself, or the one that makes the
  /// gradient.
  std::vector<OpId> source;
  /// [ops of `graph`] Whether it runs, or exists, once for each micro-batch: forward and backward pass, sums
  /// of gradients, and inputs. State and the update are there once.
  std::vector<bool> each;
  std::vector<std::uint32_t> runs;  ///< [ops of `graph`] How often: the micro-batches, or once.
};

/// Samples of the batch that the graph was made for (`meta.batch`); 0: it does not state them.
std::int64_t batch_of(const OpGraph& graph);

/// Errors (kInvalid): as micro_batch_graph().
Result<Unit> check_micro_batches(const OpGraph& graph);

/// Returns the graph for steps of several micro-batches. A sum of gradients stays in memory for the whole
/// step, and adding the first one takes the time of the others, as with `zero_grad(set_to_none=False)`.
/// Errors (kInvalid): a graph without backward pass or update, or that does not list producers first; an op
/// that is called like one that is added.
Result<MicroBatchGraph> micro_batch_graph(const OpGraph& graph, std::uint32_t micro_batches = 1);
/// The same where passes are run by replicas (graph/training/replica_graph.h), which may have different
/// numbers of micro-batches.   `micro_batches`: [ops]
Result<MicroBatchGraph> micro_batch_graph(const OpGraph& graph, std::span<const std::uint32_t> micro_batches);

}  // namespace emplace
