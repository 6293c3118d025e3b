#include "tests/executor/cuda/twin_kernel.h"

#include <utility>

namespace emplace::testing {
namespace {

class Twin final : public cpu::Kernel {
 public:
  explicit Twin(std::unique_ptr<cuda::Kernel> kernel) : kernel_{std::move(kernel)} {}
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  bool may_overwrite(std::size_t input) const override { return kernel_->may_overwrite(input); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    kernel_->run_on_host({inputs, outputs, scratch});
  }

 private:
  std::unique_ptr<cuda::Kernel> kernel_;
};

}  // namespace

std::unique_ptr<cpu::Kernel> twin_of(std::unique_ptr<cuda::Kernel> kernel) {
  return std::make_unique<Twin>(std::move(kernel));
}

}  // namespace emplace::testing
