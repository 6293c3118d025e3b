#pragma once
/// The GPU implementation of an op, created once per signature. Signatures are those of the CPU kernels, so
/// that both can be compared.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "executor/kernel/kernel.h"
#include "executor/kernel/kernel_table.h"
#include "executor/kernel/signature.h"

// Forward declarations as in CUDA's headers, which only few files include.
struct CUstream_st;
struct cublasLtContext;
struct cudnnContext;

namespace emplace {
struct InitialFill;
}

namespace emplace::cuda {

class EngineChoices;
class Session;

/// Resources of a logical device for enqueuing kernels. A plain value, created by its device.
struct Lane {
  Session* session = nullptr;
  CUstream_st* stream = nullptr;    ///< Compute stream; kernels run in the order in which they are enqueued.
  cublasLtContext* blas = nullptr;  ///< Null if the library is missing.
  cudnnContext* dnn = nullptr;
  int processors = 0;          ///< Streaming multiprocessors that it may use; 0: all.
  std::int64_t workspace = 0;  ///< Most that a convolution may use [B]; 0: kMaxWorkspace.
  /// What kernels that are prepared may overwrite in trial runs: the device's memory, in which no step runs
  /// yet.
  std::span<std::byte> trial_memory;
  EngineChoices* engines = nullptr;  ///< Those of convolutions; null: the first that fits.
};

/// Limit on the workspace of a matrix product, and of a convolution on a small device [B].
inline constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;

/// run() is the CPU twin: the same computation in plain loops over host memory. Custom kernels share the
/// index arithmetic; library kernels have a naive version. Thread: one at a time.
class Kernel : public emplace::Kernel {
 public:
  /// Queries the libraries' requirements on `lane`; scratch_bytes() is valid afterwards. Called once per
  /// kind of lane before the first enqueue. Errors: kUnsupported if a library has no implementation; those
  /// of Session.
  virtual Result<Unit> prepare(const Lane& lane) {
    (void)lane;
    return Unit{};
  }
  /// Enqueues the work and returns. Errors: those of Session.
  virtual Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const = 0;
};

using Made = Result<std::unique_ptr<Kernel>>;
using KernelEntry = emplace::KernelEntry<Kernel>;

/// The kernel of a signature. Any thread. Errors: kUnsupported, with the unsupported part of the signature.
Made make_kernel(const Signature& signature);
bool has_kernel(std::string_view type);
/// True for matrix products and convolutions: cuBLASLt and cuDNN are promised operands on 16 bytes.
bool runs_in_library(std::string_view type);
/// All types with a kernel, sorted. For tests: each is compared with its CPU twin.
std::vector<std::string_view> kernel_types();

/// A stand-in for an op without a kernel: writes zeros to its outputs, then spins for `duration_us` on a
/// single multiprocessor, so that it does not fake contention.
std::unique_ptr<Kernel> make_synthetic(const Signature& signature, double duration_us);

/// Fills output 0 with the initial values of a buffer of state, as InitialValues::fill() does on the host.
std::unique_ptr<Kernel> make_fill(const InitialFill& fill);

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
