#pragma once
/// Kernels of devices on the CPU: the driver calls them in stream order, as host functions.

#include <functional>
#include <memory>

#include "base/result.h"
#include "executor/cuda/kernels/kernel.h"

namespace emplace::cuda {

/// A kernel that has only run_on_host(). Its calls must neither throw nor call CUDA.
class HostKernel : public Kernel {
 public:
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const final;
};

/// Makes the CPU kernel of a signature. Empty: devices on the CPU are refused. Errors: kUnsupported.
using MakeHostKernel = std::function<Result<std::unique_ptr<Kernel>>(const Signature& signature)>;

/// A stand-in for an op without a CPU kernel: writes zeros to its outputs and lasts `duration_us`.
std::unique_ptr<Kernel> make_host_synthetic(const Signature& signature, double duration_us);

}  // namespace emplace::cuda
