#pragma once
/// The CPU executor's kernels for devices on the CPU in the cuda executor.

#include <memory>
#include <utility>

#include "executor/cpu/kernel.h"
#include "executor/cuda/kernels/host_kernel.h"

namespace emplace::launcher {

/// Errors: those of cpu::make_kernel().
inline Result<std::unique_ptr<cuda::Kernel>> make_host_kernel(const Signature& signature) {
  class OnHost final : public cuda::HostKernel {
   public:
    explicit OnHost(std::unique_ptr<cpu::Kernel> kernel) : kernel_{std::move(kernel)} {}
    std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
    bool may_overwrite(std::size_t input) const override { return kernel_->may_overwrite(input); }
    void run_on_host(const cuda::Pointers& pointers) const override {
      kernel_->run(pointers.inputs, pointers.outputs, pointers.scratch);
    }

   private:
    const std::unique_ptr<cpu::Kernel> kernel_;
  };
  EMPLACE_TRY_ASSIGN(auto kernel, cpu::make_kernel(signature));
  return std::unique_ptr<cuda::Kernel>{std::make_unique<OnHost>(std::move(kernel))};
}

}  // namespace emplace::launcher
