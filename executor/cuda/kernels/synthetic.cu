// The stand-in for an op without a kernel, and a probe of the multiprocessors that a stream reaches.
#include "executor/cuda/kernels/passes.cuh"
#include "executor/cuda/kernels/probes.h"

namespace emplace::cuda {
namespace {

struct Touch {
  static constexpr const char* kName = "synthetic touch";
  std::size_t which = 0;
  std::uint8_t* out = nullptr;
  void bind(const Pointers& pointers) { out = output<std::uint8_t>(pointers, which); }
  EMPLACE_HD void operator()(std::int64_t i) const { out[i] = 0; }
};

__global__ void spin_kernel(std::uint64_t duration_ns) {
#ifdef __CUDA_ARCH__
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < duration_ns);
#endif
}

class SpinPass final : public Pass {
 public:
  explicit SpinPass(std::uint64_t duration_ns) : duration_ns_{duration_ns} {}
  Result<Unit> enqueue(const Lane& lane, const Pointers&) const override {
    std::uint64_t duration_ns = duration_ns_;
    void* arguments[] = {&duration_ns};
    return launch(lane, reinterpret_cast<const void*>(&spin_kernel), "synthetic spin", 1, 1, arguments);
  }
  void run_on_host(const Pointers&) const override {}

 private:
  std::uint64_t duration_ns_;
};

/// Every block records its multiprocessor, and runs long enough that other blocks go elsewhere.
__global__ void note_processors(std::uint32_t* seen, int words) {
#ifdef __CUDA_ARCH__
  std::uint32_t id = 0;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  if (threadIdx.x == 0 && id / 32 < static_cast<std::uint32_t>(words))
    atomicOr(&seen[id / 32], 1u << (id % 32));
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < 20'000);
#endif
}

__global__ void write_outside(std::uint32_t* nowhere) { *nowhere = 1; }

}  // namespace

std::unique_ptr<Kernel> make_synthetic(const Signature& signature, double duration_us) {
  auto kernel = std::make_unique<OwnKernel>();
  for (std::size_t k = 0; k < signature.outputs.size(); ++k) {
    const Operand& out = signature.outputs[k];
    add_each(*kernel, Touch{.which = k}, elements(out) * element_bytes(out.dtype));
  }
  kernel->add(
      std::make_unique<SpinPass>(static_cast<std::uint64_t>(duration_us > 0 ? duration_us * 1e3 : 0)));
  return kernel;
}

Result<Unit> enqueue_note_processors(const Lane& lane, std::uint32_t* seen, int words) {
  void* arguments[] = {&seen, &words};
  return launch(lane, reinterpret_cast<const void*>(&note_processors), "note processors", 4096, 1, arguments);
}

Result<Unit> enqueue_illegal_access(const Lane& lane) {
  auto* nowhere = reinterpret_cast<std::uint32_t*>(std::uintptr_t{16});
  void* arguments[] = {&nowhere};
  return launch(lane, reinterpret_cast<const void*>(&write_outside), "illegal access", 1, 1, arguments);
}

}  // namespace emplace::cuda
