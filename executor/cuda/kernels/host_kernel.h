#pragma once
/// Kernels of devices on the CPU: the driver calls them in stream order, as host functions.

#include <functional>
#include <memory>
#include <utility>

#include "base/result.h"
#include "executor/cuda/kernels/kernel.h"

namespace emplace::cuda {

/// A kernel that a GPU cannot run. Its calls must neither throw nor call CUDA.
class HostKernel final : public Kernel {
 public:
  explicit HostKernel(std::unique_ptr<emplace::Kernel> inner) : inner_{std::move(inner)} {}
  std::size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  bool may_overwrite(std::size_t input) const override { return inner_->may_overwrite(input); }
  void run(const Pointers& pointers) const override { inner_->run(pointers); }
  Result<Unit> enqueue(const Lane&, const Pointers&) const override {
    return Error{Errc::kUnsupported, "a kernel of the CPU has no launch on a GPU"};
  }

 private:
  const std::unique_ptr<emplace::Kernel> inner_;
};

/// Makes the CPU kernel of a signature. Empty: devices on the CPU are refused. Errors: kUnsupported.
using MakeHostKernel = std::function<Result<std::unique_ptr<emplace::Kernel>>(const Signature& signature)>;

/// A stand-in for an op without a CPU kernel: writes zeros to its outputs and lasts `duration_us`.
std::unique_ptr<Kernel> make_host_synthetic(const Signature& signature, double duration_us);

}  // namespace emplace::cuda
