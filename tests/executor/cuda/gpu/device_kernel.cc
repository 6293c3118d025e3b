#include "tests/executor/cuda/gpu/device_kernel.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace emplace::gpu_check {
namespace {

/// Bytes in memory from its first element to its last.
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
  void run(const Pointers& memory) const override {
    if (auto done = try_run(memory.inputs, memory.outputs); !done) failure_ = done.error().context;
  }

 private:
  Result<Unit> try_run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const {
    const cuda::RuntimeApi& runtime = session_.api().runtime;
    const cudaStream_t stream = device_.stream(cuda::StreamKind::kCompute);
    std::byte* next = device_.memory();
    // Operands are in one allocation, so that only guards detect writes beside them.
    constexpr std::size_t kGuard = 512;
    constexpr int kGuardByte = 0xa5;
    std::vector<const std::byte*> guards;
    const auto place = [&](std::size_t bytes) {
      std::byte* const at = next;
      const std::size_t whole = (bytes + 511) / 512 * 512;
      guards.push_back(at + bytes);
      next += whole + kGuard;
      guard_bytes_.push_back(whole - bytes + kGuard);
      return at;
    };
    guard_bytes_.clear();
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
    std::byte* const scratch = place(kernel_->scratch_bytes());
    // Scratch contains NaNs, not the results of the last kernel.
    EMPLACE_TRY(
        session_.check(runtime.MemsetAsync(scratch, 0xff, kernel_->scratch_bytes(), stream), "scratch"));
    for (std::size_t g = 0; g < guards.size(); ++g)
      EMPLACE_TRY(session_.check(
          runtime.MemsetAsync(const_cast<std::byte*>(guards[g]), kGuardByte, guard_bytes_[g], stream),
          "guard"));
    EMPLACE_TRY(kernel_->enqueue(device_.lane(), {in, out, scratch}));
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (auto done = session_.check(runtime.MemcpyAsync(outputs[k], out[k], extent(signature_.outputs[k]),
                                                         cudaMemcpyDeviceToHost, stream),
                                     "result");
          !done)
        return done;
    std::vector<std::vector<std::byte>> found;
    for (std::size_t g = 0; g < guards.size(); ++g) {
      found.emplace_back(guard_bytes_[g], std::byte{kGuardByte});  // A rehearsal leaves the guards whole.
      EMPLACE_TRY(session_.check(
          runtime.MemcpyAsync(found[g].data(), guards[g], guard_bytes_[g], cudaMemcpyDeviceToHost, stream),
          "guard"));
    }
    EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(stream), "kernel"));
    for (const auto& guard : found)
      if (std::ranges::any_of(guard, [](std::byte b) { return b != std::byte{kGuardByte}; }))
        return Error{Errc::kRunFailed, "it wrote beside its operands"};
    return Unit{};
  }

  std::unique_ptr<cuda::Kernel> kernel_;
  const Signature signature_;
  cuda::Session& session_;
  const cuda::LogicalDevice& device_;
  std::string& failure_;
  mutable std::vector<std::size_t> guard_bytes_;  // [operands]
};

}  // namespace

std::unique_ptr<cpu::Kernel> on_device(std::unique_ptr<cuda::Kernel> kernel, const Signature& signature,
                                       cuda::Session& session, const cuda::LogicalDevice& device,
                                       std::string& failure) {
  return std::make_unique<DeviceKernel>(std::move(kernel), signature, session, device, failure);
}

}  // namespace emplace::gpu_check
