#include "executor/cuda/device/self_test.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "executor/cuda/kernels/kernel.h"

namespace emplace::cuda {

Result<Unit> self_test(Session& session, const DeviceGroup& group) {
  const CudaApi& api = session.api();
  constexpr std::size_t n = 10'000;
  const Operand row{DType::kF32, {n}, {1}}, one{DType::kF32, {}, {}};
  EMPLACE_TRY_ASSIGN(auto kernel, make_kernel({"aten::sum", "{}", {row}, {one}}));
  for (std::size_t d = 0; d < group.size(); ++d) {
    const LogicalDevice& device = group[d];
    if (device.on_host() || device.bytes() < (1 << 20)) continue;  // Too small for the operands below.
    const cudaStream_t stream = device.stream(StreamKind::kCompute);
    std::vector<float> ones(n, 1.0f);
    float sum = 0;
    const std::byte* const input = device.memory();
    std::byte* const output = device.memory() + (1 << 18);
    const auto run = [&]() -> Result<Unit> {
      EMPLACE_TRY(device.make_current());
      EMPLACE_TRY(session.check(api.runtime.MemcpyAsync(device.memory(), ones.data(), n * sizeof(float),
                                                        cudaMemcpyHostToDevice, stream),
                                "self-test"));
      const Pointers pointers{{&input, 1}, {&output, 1}, device.memory() + (1 << 19)};
      EMPLACE_TRY(kernel->enqueue(device.lane(), pointers));
      EMPLACE_TRY(session.check(
          api.runtime.MemcpyAsync(&sum, output, sizeof sum, cudaMemcpyDeviceToHost, stream), "self-test"));
      return session.check(session.api().runtime.StreamSynchronize(stream), "self-test");
    };
    EMPLACE_TRY(run());
    if (sum != static_cast<float>(n))
      return Error{Errc::kRunFailed,
                   fmt::format("self-test: wrong sum on device {}, GPU {}", d, device.physical())};
  }
  return Unit{};
}

}  // namespace emplace::cuda
