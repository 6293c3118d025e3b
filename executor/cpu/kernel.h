#pragma once
/// The kernels of the CPU.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "executor/kernel/attributes.h"
#include "executor/kernel/kernel.h"
#include "executor/kernel/kernel_table.h"
#include "executor/kernel/signature.h"

namespace emplace::cpu {

using emplace::Kernel;
using Made = Result<std::unique_ptr<Kernel>>;

/// The dtype of float, double, int64_t or int32_t.
template <class T>
inline constexpr DType dtype_of = std::is_same_v<T, float>          ? DType::kF32
                                  : std::is_same_v<T, double>       ? DType::kF64
                                  : std::is_same_v<T, std::int64_t> ? DType::kI64
                                                                    : DType::kI32;
/// Returns `visit(T{})` for the one of `Types` that has the dtype; `otherwise` if none has.
template <class... Types, class Value, class Visit>
Value visit_dtype(DType dtype, Value otherwise, Visit visit) {
  (void)((dtype == dtype_of<Types> && (otherwise = visit(Types{}), true)) || ...);
  return otherwise;
}
/// As visit_dtype(). Errors: kUnsupported for another dtype; those of `make`.
template <class... Types, class Make>
Made by_dtype(const Signature& signature, DType dtype, Make make) {
  return visit_dtype<Types...>(dtype, Made{unsupported(signature, dtype)}, make);
}

/// The kernel of a signature; any thread. Errors: kUnsupported if there is no kernel for the type, an
/// attribute, a dtype or a shape; the context states which.
Made make_kernel(const Signature& signature);
/// True if the type has a kernel; a signature may still be unsupported.
bool has_kernel(std::string_view type);

struct Counts {
  std::size_t least, most = SIZE_MAX;
};
/// Errors: kUnsupported if the signature has another number of inputs or outputs.
Result<Unit> expect(const Signature& signature, Counts inputs, std::size_t outputs = 1);

using KernelEntry = emplace::KernelEntry<Kernel>;
// The families, and examples of their ops: torch's; ONNX's. Each has its table in its own file.
std::span<const KernelEntry> matmul_kernels();       ///< For mm, addmm, bmm; MatMul, Gemm
std::span<const KernelEntry> convolution_kernels();  ///< For convolution, its backward; Conv, ConvTranspose
std::span<const KernelEntry> pooling_kernels();      ///< For max, avg, adaptive, backward; MaxPool, …
std::span<const KernelEntry>
normalisation_kernels();                         ///< For batch_norm, layer_norm, backward; BatchNormalization
std::span<const KernelEntry> softmax_kernels();  ///< For softmax, log_softmax, backward; Softmax, LogSoftmax
std::span<const KernelEntry> loss_kernels();     ///< For nll_loss, nll_loss2d, backward
std::span<const KernelEntry> elementwise_kernels();  ///< For unary, binary, backward, addcmul, …; Add, Erf, …
std::span<const KernelEntry> reduction_kernels();  ///< For sum, mean; ReduceMean, …
std::span<const KernelEntry> movement_kernels();  ///< For cat, stack, clone, split, …; Concat, Transpose, …
std::span<const KernelEntry> box_kernels();       ///< For slice, select, pad, flip, backward; Pad, Slice, …
std::span<const KernelEntry> resize_kernels();    ///< For upsample, backward; Resize
std::span<const KernelEntry> lookup_kernels();    ///< For embedding and its backward, index_select; Gather
std::span<const KernelEntry> scatter_kernels();         ///< For gather, scatter; GatherElements, …
std::span<const KernelEntry> scatter_slices_kernels();  ///< For index_add, index_copy; ScatterND
std::span<const KernelEntry> selection_kernels();       ///< For argmax, cumsum, one_hot; ArgMax, …
std::span<const KernelEntry> creation_kernels();        ///< For new_zeros, ones_like, empty_like, bernoulli

}  // namespace emplace::cpu
