#pragma once
/// The ops of a graph with their kernels on one logical device.

#include <atomic>
#include <cstdint>

#include "executor/cuda/kernels/host_kernel.h"
#include "executor/cuda/kernels/kernel.h"
#include "executor/kernel/bound_graph.h"
#include "placement/machine/cost_model.h"

namespace emplace::cuda {

using Packing = emplace::Packing<Kernel>;
using BoundInput = emplace::BoundInput<Kernel>;
using BoundKernel = emplace::BoundKernel<Kernel, Kernel>;
using BoundGraph = emplace::BoundGraph<Kernel, Kernel, 256>;

/// Creates and prepares every kernel on `lane`; for a device on the CPU `make_host` makes them. An op whose
/// kernel a library refuses is synthetic. `costs`: duration of synthetic ops on `device`. `progress`:
/// incremented with every kernel made. Errors: kUnsupported with the op, if an op has no kernel and
/// `allow_synthetic` is false; those of Session.
Result<BoundGraph> bind_graph(const LoweredGraph& lowered, const Lane& lane, DeviceId device,
                              const CostTable& costs, bool allow_synthetic,
                              std::atomic<std::uint64_t>* progress = nullptr,
                              const MakeHostKernel& make_host = {});

}  // namespace emplace::cuda
