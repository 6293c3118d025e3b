#pragma once
/// The ops of a graph with their kernels on the CPU.

#include "executor/cpu/kernels/movement/copy_loop.h"
#include "executor/kernel/bound_graph.h"
#include "executor/kernel/kernel.h"

namespace emplace::cpu {

using Packing = emplace::Packing<CopyLoop>;
using BoundInput = emplace::BoundInput<CopyLoop>;
using BoundKernel = emplace::BoundKernel<Kernel, CopyLoop>;
using BoundGraph = emplace::BoundGraph<Kernel, CopyLoop, 64>;

/// Synthetic ops have no kernel. Errors: kUnsupported with the op, if an op has no kernel and
/// `allow_synthetic` is false.
Result<BoundGraph> bind_graph(const LoweredGraph& lowered, bool allow_synthetic);

}  // namespace emplace::cpu
