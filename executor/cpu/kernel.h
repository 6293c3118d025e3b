#pragma once
/// The CPU implementation of an op, created once per signature and shared by all ops with that signature.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "executor/kernel/signature.h"

namespace emplace::cpu {

/// Immutable after construction and shared: run() is called from several threads at once, each with its own
/// memory. Deterministic: equal input bytes give equal output bytes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Scratch memory for run() [B], 64-byte aligned; taken from the device's arena.
  virtual std::size_t scratch_bytes() const { return 0; }
  /// True if output 0 may share the memory of input `input` (same shape, packed): elementwise ops.
  virtual bool may_overwrite(std::size_t input) const {
    (void)input;
    return false;
  }
  /// `inputs` [inputs], `outputs` [outputs]: pointers to element 0, 64-byte aligned if packed. Never
  /// throws.
  virtual void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                   std::byte* scratch) const = 0;
};

/// Errors: kUnsupported if there is no kernel for the type, an attribute, a dtype or a shape; the context
/// states which.
using MakeKernel = Result<std::unique_ptr<Kernel>> (*)(const Signature& signature);

/// The kernel of a signature; any thread. Errors: kUnsupported.
Result<std::unique_ptr<Kernel>> make_kernel(const Signature& signature);
/// True if the type has a kernel; a signature may still be unsupported.
bool has_kernel(std::string_view type);

/// One entry of a kernel family. Each family has its table in its own file; kernel.cc lists the families.
struct KernelEntry {
  std::string_view type;
  MakeKernel make;
};
// The families, and examples of their ops: torch's; ONNX's.
std::span<const KernelEntry> matmul_kernels();       ///< For mm, addmm, bmm; MatMul, Gemm
std::span<const KernelEntry> convolution_kernels();  ///< For convolution, its backward; Conv, ConvTranspose
std::span<const KernelEntry> pooling_kernels();      ///< For max, avg, adaptive, backward; MaxPool, …
std::span<const KernelEntry>
normalisation_kernels();                         ///< For batch_norm, layer_norm, backward; BatchNormalization
std::span<const KernelEntry> softmax_kernels();  ///< For softmax, log_softmax, nll_loss, backward; Softmax
std::span<const KernelEntry> elementwise_kernels();  ///< For unary, binary, backward, addcmul, …; Add, Erf, …
std::span<const KernelEntry> reduction_kernels();  ///< For sum, mean; ReduceMean, …
std::span<const KernelEntry>
movement_kernels();  ///< For cat, stack, clone, split, pad, …; Concat, Transpose, …
std::span<const KernelEntry> lookup_kernels();    ///< For embedding and its backward, one-hot; Gather
std::span<const KernelEntry> creation_kernels();  ///< For new_zeros, ones_like, empty_like, bernoulli

}  // namespace emplace::cpu
