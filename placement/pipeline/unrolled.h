#pragma once
/// A step of several micro-batches as an ordinary graph.

#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "placement/pipeline/pipeline_order.h"

namespace emplace {

/// Type of the op with which an action starts.
inline constexpr std::string_view kStartType = "emplace::start";

/// Every op of every micro-batch, and what holds each device to its order. Names end in "@M" with the number
/// of the micro-batch; ops that exist once keep theirs.
struct UnrolledGraph {
  OpGraph graph;
  std::vector<OpId> source;  ///< [ops of `graph`] Op of the micro-batch's graph; kNoOp: it takes no time.
  Placement placement;       ///< [ops of `graph`]
};

/// The graph whose plain step is the step of the pipeline. An action starts when its device has ended the one
/// before and all that it reads of other devices has arrived; its kernels run in issue order, without
/// interruption. What others read leaves as soon as it is made. `placement` [ops of the micro-batch's graph].
/// Errors (kUnsupported), of what no graph can express: an action that ends with a kernel without an output,
/// for whose end nothing can wait; one that reads a view of several tensors, one of which it makes itself.
Result<UnrolledGraph> unrolled(const MicroBatchGraph& micro_batch, const LoweredGraph& lowered,
                               const Chunks& chunks, const PipelineOrder& order,
                               std::span<const DeviceId> placement);

}  // namespace emplace
