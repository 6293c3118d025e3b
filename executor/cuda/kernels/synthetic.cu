// The stand-in for an op without a kernel, and a probe of the multiprocessors that a stream reaches.
#include "executor/cuda/kernels/passes.cuh"
#include "executor/cuda/kernels/probes.h"

namespace emplace::cuda {
namespace {

struct Touch {
  static constexpr const char* kName = "synthetic touch";
  std::size_t which = 0;
  std::int64_t bytes = 0;
  std::uint8_t* out = nullptr;
  void bind(const Pointers& pointers) { out = pointers.output<std::uint8_t>(which); }
  /// Word i, and at the end what is left of one.
  EMPLACE_HD void operator()(std::int64_t i) const {
    if (8 * i + 8 <= bytes) {
      *reinterpret_cast<std::uint64_t*>(out + 8 * i) = 0;
    } else {
      for (std::int64_t b = 8 * i; b < bytes; ++b) out[b] = 0;
    }
  }
};

__global__ void note_time(std::uint64_t* when) {
#ifdef __CUDA_ARCH__
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(*when));
#endif
}

/// Spins until `duration_ns` after the time in `since`; null: after its own start.
__global__ void spin_kernel(const std::uint64_t* since, std::uint64_t duration_ns) {
#ifdef __CUDA_ARCH__
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  if (since != nullptr) begin = *since;
  for (;;) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - begin >= duration_ns) return;
    __nanosleep(100);  // Kernels on the same multiprocessor need the issue slots.
  }
#endif
}

class NoteTimePass final : public Pass {
 public:
  explicit NoteTimePass(std::size_t at) : at_{at} {}
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    return enqueue_note_time(lane, pointers.scratch_at<std::uint64_t>(at_));
  }
  void run(const Pointers&) const override {}

 private:
  std::size_t at_;
};

class SpinPass final : public Pass {
 public:
  SpinPass(std::size_t at, std::uint64_t duration_ns) : at_{at}, duration_ns_{duration_ns} {}
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    return enqueue_spin_since(lane, pointers.scratch_at<const std::uint64_t>(at_), duration_ns_);
  }
  void run(const Pointers&) const override {}

 private:
  std::size_t at_;
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

/// `never`: null, which the compiler does not know.
__global__ void count_kernel(float* never, int additions) {
  float sum = static_cast<float>(threadIdx.x);
  for (int i = 0; i < additions; ++i) sum = fmaf(sum, 0.5f, 1.0f);
  if (never != nullptr) *never = sum;
}

__global__ void write_outside(std::uint32_t* nowhere) { *nowhere = 1; }

}  // namespace

std::unique_ptr<Kernel> make_synthetic(const Signature& signature, double duration_us) {
  auto kernel = std::make_unique<OwnKernel>();
  const std::size_t at = kernel->take_scratch(sizeof(std::uint64_t));
  kernel->add(std::make_unique<NoteTimePass>(at));
  for (std::size_t k = 0; k < signature.outputs.size(); ++k) {
    const Operand& out = signature.outputs[k];
    const std::int64_t bytes = out.elements() * element_bytes(out.dtype);
    add_each(*kernel, Touch{.which = k, .bytes = bytes}, (bytes + 7) / 8);
  }
  kernel->add(
      std::make_unique<SpinPass>(at, static_cast<std::uint64_t>(duration_us > 0 ? duration_us * 1e3 : 0)));
  return kernel;
}

Result<Unit> enqueue_note_time(const Lane& lane, std::uint64_t* when) {
  void* arguments[] = {&when};
  return launch(lane, reinterpret_cast<const void*>(&note_time), "note time", 1, 1, arguments, 1);
}

Result<Unit> enqueue_spin_since(const Lane& lane, const std::uint64_t* since, std::uint64_t duration_ns) {
  void* arguments[] = {&since, &duration_ns};
  return launch(lane, reinterpret_cast<const void*>(&spin_kernel), "spin", 1, 1, arguments, 1);
}

Result<Unit> enqueue_spin(const Lane& lane, std::uint64_t duration_ns) {
  return enqueue_spin_since(lane, nullptr, duration_ns);
}

Result<Unit> enqueue_count(const Lane& lane) {
  float* never = nullptr;
  int additions = 50'000;
  void* arguments[] = {&never, &additions};
  return launch(lane, reinterpret_cast<const void*>(&count_kernel), "count", 1, 1, arguments, 1);
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
