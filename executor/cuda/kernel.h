#pragma once
/// One op's computation on a GPU, made once per signature. Signatures are those of the CPU's kernels, so that
/// the two can be compared.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "executor/kernel/signature.h"

// As in CUDA's headers, which only few files include.
struct CUstream_st;
struct cublasLtContext;
struct cudnnContext;

namespace emplace::cuda {

class Session;

/// What a logical device offers to what is enqueued on it. A plain value; made by its device.
struct Lane {
  Session* session = nullptr;
  CUstream_st* stream = nullptr;    ///< Compute: kernels run in the order in which they were enqueued.
  cublasLtContext* blas = nullptr;  ///< Null where the library is missing.
  cudnnContext* dnn = nullptr;
  int processors = 0;  ///< Streaming multiprocessors that it may use; 0: all.
};

/// Memory of one call: pointers to element 0 of each operand, and to scratch_bytes() of scratch.
struct Pointers {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;
};

/// Most workspace that a library may ask for [B].
inline constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;

/// Thread: one at a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Asks the libraries for what they need to run it on `lane`; scratch_bytes() holds from here on. Called
  /// once per lane's kind before the first enqueue. Errors: kUnsupported if a library has no way; else of
  /// Session.
  virtual Result<Unit> prepare(const Lane& lane) {
    (void)lane;
    return Unit{};
  }
  /// Scratch of a call [B], 256-byte aligned, from the device's arena.
  virtual std::size_t scratch_bytes() const { return 0; }
  /// True if output 0 may be the memory of input `input`.
  virtual bool may_overwrite(std::size_t input) const {
    (void)input;
    return false;
  }
  /// Enqueues and returns. Errors: of Session.
  virtual Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const = 0;
  /// The CPU twin: the same work in plain loops over host memory, with the same index arithmetic where the
  /// kernel is ours, and a naive one where it is a library's.
  virtual void run_on_host(const Pointers& pointers) const = 0;
};

using MakeKernel = Result<std::unique_ptr<Kernel>> (*)(const Signature& signature);
struct KernelEntry {
  std::string_view type;
  MakeKernel make;
};

/// Any thread. Errors: kUnsupported, saying what of the signature has no kernel.
Result<std::unique_ptr<Kernel>> make_kernel(const Signature& signature);
bool has_kernel(std::string_view type);
/// Every type that has a maker, sorted.
std::vector<std::string_view> kernel_types();

/// Stands in for an op without a kernel: touches its outputs once, then spins for `duration_us` on one
/// multiprocessor, so that it does not fake contention. Outputs become zero.
std::unique_ptr<Kernel> make_synthetic(const Signature& signature, double duration_us);

std::span<const KernelEntry> pointwise_kernels();
std::span<const KernelEntry> movement_kernels();
std::span<const KernelEntry> reduction_kernels();
std::span<const KernelEntry> softmax_kernels();
std::span<const KernelEntry> normalisation_kernels();
std::span<const KernelEntry> pooling_kernels();
std::span<const KernelEntry> lookup_kernels();
std::span<const KernelEntry> resize_kernels();
std::span<const KernelEntry> loss_kernels();
std::span<const KernelEntry> matmul_kernels();
std::span<const KernelEntry> convolution_kernels();

}  // namespace emplace::cuda
