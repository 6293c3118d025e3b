#include "executor/cuda/kernels/host_kernel.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace emplace::cuda {

std::unique_ptr<Kernel> make_host_synthetic(const Signature& signature, double duration_us) {
  const Nanos duration{static_cast<std::int64_t>(std::max(duration_us, 0.0) * 1e3)};
  std::vector<std::int64_t> bytes;  // [outputs]
  for (const Operand& out : signature.outputs) bytes.push_back(out.bytes());
  return std::make_unique<HostKernel>(kernel_of([duration, bytes = std::move(bytes)](const Pointers& memory) {
    static const SystemClock clock;
    const Nanos begin = clock.now();
    for (std::size_t k = 0; k < bytes.size(); ++k) std::fill_n(memory.outputs[k], bytes[k], std::byte{0});
    while (clock.now() - begin < duration) {
    }
  }));
}

}  // namespace emplace::cuda
