#include "executor/cuda/self_test.h"

#include <string>
#include <vector>

#include "executor/cuda/kernel.h"
#include "executor/cuda/logical_device.h"

namespace emplace::cuda {

Result<Unit> self_test(const CudaApi& api) {
  if (auto there = check_available(api); !there) return there;
  Session session{api};
  int gpus = 0;
  if (auto done = session.check(api.runtime.GetDeviceCount(&gpus), "cudaGetDeviceCount"); !done) return done;
  std::vector<Device> devices;
  for (int i = 0; i < gpus; ++i)
    devices.push_back({"gpu:" + std::to_string(i), *find_profile("h200"), 1 << 20, ""});
  const auto set = DeviceSet::make(std::move(devices), Link{1e9, 0});
  if (!set) return set.error();
  auto group = DeviceGroup::make(session, *set);
  if (!group) return group.error();
  constexpr std::size_t n = 10'000;
  const Operand row{DType::kF32, {n}, {1}}, one{DType::kF32, {}, {}};
  auto kernel = make_kernel({"aten::sum", "{}", {row}, {one}});
  if (!kernel) return kernel.error();
  for (std::size_t d = 0; d < (*group)->size(); ++d) {
    const LogicalDevice& device = (**group)[d];
    const cudaStream_t stream = device.stream(StreamKind::kCompute);
    std::vector<float> ones(n, 1.0f);
    float sum = 0;
    const std::byte* const input = device.memory();
    std::byte* const output = device.memory() + (1 << 18);
    const auto run = [&]() -> Result<Unit> {
      if (auto done = device.make_current(); !done) return done;
      if (auto done = session.check(api.runtime.MemcpyAsync(device.memory(), ones.data(), n * sizeof(float),
                                                            cudaMemcpyHostToDevice, stream),
                                    "self-test");
          !done)
        return done;
      const Pointers pointers{{&input, 1}, {&output, 1}, device.memory() + (1 << 19)};
      if (auto done = (*kernel)->enqueue(device.lane(), pointers); !done) return done;
      if (auto done = session.check(
              api.runtime.MemcpyAsync(&sum, output, sizeof sum, cudaMemcpyDeviceToHost, stream), "self-test");
          !done)
        return done;
      return session.check(session.api().runtime.StreamSynchronize(stream), "self-test");
    };
    if (auto done = run(); !done) return done;
    if (sum != static_cast<float>(n))
      return Error{Errc::kRunFailed, "self-test: GPU " + std::to_string(device.physical()) + " adds wrongly"};
  }
  return Unit{};
}

}  // namespace emplace::cuda
