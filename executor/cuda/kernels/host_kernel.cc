#include "executor/cuda/kernels/host_kernel.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/kernels/passes.h"

namespace emplace::cuda {
namespace {

class HostSynthetic final : public HostKernel {
 public:
  HostSynthetic(const Signature& signature, double duration_us)
      : duration_{static_cast<std::int64_t>(std::max(duration_us, 0.0) * 1e3)} {
    for (const Operand& out : signature.outputs)
      bytes_.push_back(static_cast<std::size_t>(elements(out) * element_bytes(out.dtype)));
  }
  void run_on_host(const Pointers& pointers) const override {
    static const SystemClock clock;
    const Nanos begin = clock.now();
    for (std::size_t k = 0; k < bytes_.size(); ++k) std::fill_n(pointers.outputs[k], bytes_[k], std::byte{0});
    while (clock.now() - begin < duration_) {
    }
  }

 private:
  const Nanos duration_;
  std::vector<std::size_t> bytes_;  // [outputs]
};

}  // namespace

Result<Unit> HostKernel::enqueue(const Lane&, const Pointers&) const {
  return Error{Errc::kUnsupported, "a kernel of the CPU has no launch on a GPU"};
}

std::unique_ptr<Kernel> make_host_synthetic(const Signature& signature, double duration_us) {
  return std::make_unique<HostSynthetic>(signature, duration_us);
}

}  // namespace emplace::cuda
