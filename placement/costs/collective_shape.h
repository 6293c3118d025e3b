#pragma once
/// Collectives: ops in which several GPUs exchange their tensors. For this room alone.

#include <optional>
#include <unordered_map>
#include <vector>

#include "placement/costs/op_sizes.h"

namespace emplace::kernel_shapes {

/// The collectives of a graph, and how many GPUs take part in each: by the attributes of an op
/// (group_size of PyTorch, ONNX Runtime and TensorFlow), else the graph's metadata (`"group_sizes":
/// {"all-reduce.1": 8}`, which the reader of HLO makes of replica groups), else how many tensors an op joins
/// or scatters. Where none of these has it, the most of the graph's other collectives, because few graphs
/// have groups of several sizes; else 2, the least. Immutable; any thread. The graph must outlive it.
class Collectives {
 public:
  explicit Collectives(const OpGraph& graph);
  /// What an op is: kNone if it waits for the end of one that runs, nothing if it has nothing to do with
  /// them.
  std::optional<KernelKind> kind(OpId op) const { return kinds_[index(graph_.type(op))]; }
  /// Adds the kernel of an op of that kind; none for kNone.
  void add_kernel(const OpSizes& sizes, OpId op, Kernels& kernels) const;

 private:
  const OpGraph& graph_;
  std::vector<std::optional<KernelKind>> kinds_;  // [types]
  std::unordered_map<OpId, double> gpus_;         // Those that are known.
  double most_ = 0;
};

}  // namespace emplace::kernel_shapes
