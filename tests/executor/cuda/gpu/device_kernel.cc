#include "tests/executor/cuda/gpu/device_kernel.h"

#include <utility>
#include <vector>

namespace emplace::gpu_check {
namespace {

/// From its first element to its last, as it lies.
std::size_t extent(const Operand& operand) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] == 0) return 0;
    last += (operand.shape[d] - 1) * operand.strides[d];
  }
  return static_cast<std::size_t>((last + 1) * element_bytes(operand.dtype));
}

class DeviceKernel final : public cpu::Kernel {
 public:
  DeviceKernel(std::unique_ptr<cuda::Kernel> kernel, Signature signature, cuda::Session& session,
               const cuda::LogicalDevice& device, std::string& failure)
      : kernel_{std::move(kernel)},
        signature_{std::move(signature)},
        session_{session},
        device_{device},
        failure_{failure} {}

  bool may_overwrite(std::size_t input) const override { return kernel_->may_overwrite(input); }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte*) const override {
    if (auto done = try_run(inputs, outputs); !done) failure_ = done.error().context;
  }

 private:
  Result<Unit> try_run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const {
    const cuda::RuntimeApi& runtime = session_.api().runtime;
    const cudaStream_t stream = device_.stream(cuda::StreamKind::kCompute);
    std::byte* next = device_.memory();
    const auto place = [&](std::size_t bytes) {
      return std::exchange(next, next + (bytes + 511) / 512 * 512);
    };
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t bytes = extent(signature_.inputs[i]);
      std::byte* const at = place(bytes);
      in.push_back(at);
      if (auto done = session_.check(
              runtime.MemcpyAsync(at, inputs[i], bytes, cudaMemcpyHostToDevice, stream), "input");
          !done)
        return done;
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      std::byte* at = place(extent(signature_.outputs[k]));
      for (std::size_t i = 0; k == 0 && i < inputs.size(); ++i)
        if (inputs[i] == outputs[0]) at = const_cast<std::byte*>(in[i]);  // In place.
      out.push_back(at);
      if (auto done = session_.check(runtime.MemcpyAsync(at, outputs[k], extent(signature_.outputs[k]),
                                                         cudaMemcpyHostToDevice, stream),
                                     "output");
          !done)
        return done;
    }
    if (auto done = kernel_->prepare(device_.lane()); !done) return done;
    if (auto done = kernel_->enqueue(device_.lane(), {in, out, place(kernel_->scratch_bytes())}); !done)
      return done;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (auto done = session_.check(runtime.MemcpyAsync(outputs[k], out[k], extent(signature_.outputs[k]),
                                                         cudaMemcpyDeviceToHost, stream),
                                     "result");
          !done)
        return done;
    return session_.check(session_.api().runtime.StreamSynchronize(stream), "kernel");
  }

  std::unique_ptr<cuda::Kernel> kernel_;
  const Signature signature_;
  cuda::Session& session_;
  const cuda::LogicalDevice& device_;
  std::string& failure_;
};

}  // namespace

std::unique_ptr<cpu::Kernel> on_device(std::unique_ptr<cuda::Kernel> kernel, const Signature& signature,
                                       cuda::Session& session, const cuda::LogicalDevice& device,
                                       std::string& failure) {
  return std::make_unique<DeviceKernel>(std::move(kernel), signature, session, device, failure);
}

}  // namespace emplace::gpu_check
