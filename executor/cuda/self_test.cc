#include "executor/cuda/self_test.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "executor/cuda/kernel.h"
#include "executor/cuda/logical_device.h"

namespace emplace::cuda {

Result<Unit> self_test(const CudaApi& api) {
  EMPLACE_TRY(check_available(api));
  Session session{api};
  int gpus = 0;
  EMPLACE_TRY(session.check(api.runtime.GetDeviceCount(&gpus), "cudaGetDeviceCount"));
  std::vector<Device> devices;
  for (int i = 0; i < gpus; ++i)
    devices.push_back({fmt::format("gpu:{}", i), *find_profile("h200"), 1 << 20, ""});
  EMPLACE_TRY_ASSIGN(const auto set, DeviceSet::make(std::move(devices), Link{1e9, 0}));
  EMPLACE_TRY_ASSIGN(auto group, DeviceGroup::make(session, set));
  constexpr std::size_t n = 10'000;
  const Operand row{DType::kF32, {n}, {1}}, one{DType::kF32, {}, {}};
  EMPLACE_TRY_ASSIGN(auto kernel, make_kernel({"aten::sum", "{}", {row}, {one}}));
  for (std::size_t d = 0; d < group->size(); ++d) {
    const LogicalDevice& device = (*group)[d];
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
      return Error{Errc::kRunFailed, fmt::format("self-test: wrong sum on GPU {}", device.physical())};
  }
  return Unit{};
}

}  // namespace emplace::cuda
