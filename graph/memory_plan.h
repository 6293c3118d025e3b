#pragma once
/// Memory decisions: which tensors that wait for the backward pass are made again, and which wait in the
/// memory of another device (docs/reference/memory_plans.md).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// A tensor that waits on another device. It is copied there when it is made, and back for its readers in the
/// backward pass.
struct MovedTensor {
  TensorId tensor{};
  DeviceId to{};
  /// The kernel at whose end the copy back is queued; kNoOp: the one that makes the gradient which the first
  /// of these readers reads.
  OpId after = kNoOp;
  bool operator==(const MovedTensor&) const = default;
};

/// Decisions about the tensors of one graph; all others are kept. Thread: a plain value.
struct MemoryPlan {
  std::vector<OpId> recompute;     ///< Kernels of the forward pass that run again for the backward pass.
  std::vector<MovedTensor> moved;  ///< Outputs of kernels of the forward pass.

  bool empty() const { return recompute.empty() && moved.empty(); }
  bool operator==(const MemoryPlan&) const = default;
};

/// Types of the ops that a plan adds to a graph.
inline constexpr std::string_view kFetchType =
    "emplace::fetch";  ///< Hands a moved tensor over to its copy back.
inline constexpr std::string_view kEndedType = "emplace::ended";  ///< An empty view of a kernel's output.
inline constexpr std::string_view kWaitType =
    "emplace::wait";  ///< A view that exists once its second input does.

/// End of the name of a copy that runs again. It is colocated with the op that it copies.
inline constexpr std::string_view kAgain = "@again";

/// Errors (kInvalid): a graph without backward pass, or that does not list producers first, has no plans.
Result<Unit> check_plannable(const OpGraph& graph);

/// Why an op cannot run again, as the end of a sentence; empty if it can.
std::string not_recomputable(const OpGraph& graph, OpId op);

/// A graph with the ops of a plan in it. It is an ordinary graph: what simulates, bounds, orders or explains
/// a placement does so with a plan as well.
struct PlannedGraph {
  OpGraph graph;
  /// [ops of `graph`] The op of the original graph whose device it shares: itself, the op that runs again, or
  /// the kernel that it waits for. kNoOp for a fetch, which may only be where its tensor waits.
  std::vector<OpId> source;
  std::vector<OpId> now;         ///< [ops of the original graph] Their numbers in `graph`.
  std::vector<OpId> recomputed;  ///< The kernels that run again: those of the plan that something needs.
  std::vector<std::pair<OpId, DeviceId>> fetches;  ///< The fetches, and where their tensors wait.
};

/// Returns the graph of a plan:
/// - Kernels run again immediately before their first reader of the backward pass, together with all others
///   that this one needs, in issue order. They wait for the gradient that it reads. Views of what they make
///   are made again as well.
/// - A moved tensor gets a fetch on its device, which takes no time.
/// `devices`: their names. Ops keep their order. Errors (kInvalid), each with the op: a kernel that cannot
/// run again; a tensor that is no output of a forward kernel, or that nothing reads after the forward pass;
/// one that is moved twice, or moved and made again; a copy back that starts after its first reader; an op
/// that would run again after its state was updated; a graph without backward pass, or that does not list
/// producers first.
Result<PlannedGraph> planned(const OpGraph& graph, const MemoryPlan& plan,
                             std::span<const std::string> devices);

/// Formats "output 1 of op 'NAME'", or "op 'NAME'" for output 0 of an op with one, for messages.
std::string quoted_tensor(const OpGraph& graph, TensorId tensor);

}  // namespace emplace
