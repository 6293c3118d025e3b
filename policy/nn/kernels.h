#pragma once
/// Inner loops that dominate training time, for machines with AVX2 and, selected at run time, AVX-512. Both
/// are bit-identical: each output is one fixed chain of fused multiply-adds, whatever the width (tested).

#include <cstddef>
#include <cstdint>

namespace emplace::policy {

/// Rows per panel of a packed matrix; see Packed in nn/product.h.
inline constexpr std::ptrdiff_t kPanel = 32;
/// The attention and softmax kernels require columns padded to a multiple of this.
inline constexpr std::ptrdiff_t kPad = 16;
constexpr std::ptrdiff_t padded(std::ptrdiff_t n) { return (n + kPad - 1) / kPad * kPad; }

/// Activation of a fused layer.
enum class Activation : std::uint8_t { kNone, kRelu, kGate };

/// All pointers are to float32; sizes are in elements. Thread: any; no state.
struct Kernels {
  const char* name;  ///< "x86-64-v3" or "x86-64-v4"; recorded with a run.

  /// C += A B.   A [m, k] in panels: A(i, p) = a[i / 32 · 32 k + 32 p + i % 32], rows padded with 0 to a
  /// multiple of 32.
  ///   B(p, j) = b[p · b_row + j · b_col];   C [m, n] column-major with `ldc`. Each C(i, j) adds its k
  ///   products in order.
  void (*product)(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, const float* a, const float* b,
                  std::ptrdiff_t b_row, std::ptrdiff_t b_col, float* c, std::ptrdiff_t ldc);

  /// scores[g] = Σ_h v[h] tanh(keys(h, g) + query[h]).   keys [rows, groups], rows a multiple of 16 and v 0
  /// in the padding.
  void (*attend)(std::ptrdiff_t rows, std::ptrdiff_t groups, const float* keys, const float* query,
                 const float* v, float* scores);
  /// Backward of attend: from dscores [groups] adds to dkeys [rows, groups], dquery [rows] and dv [rows].
  void (*attend_backward)(std::ptrdiff_t rows, std::ptrdiff_t groups, const float* keys, const float* query,
                          const float* v, const float* dscores, float* dkeys, float* dquery, float* dv);

  /// Replaces x [n] by e^(x - max x), n a multiple of 16. Returns their sum and writes max x to `peak`.
  /// Padding of -1e30 has weight 0.
  float (*exponentials)(std::ptrdiff_t n, float* x, float* peak);
  /// Returns the first index at which the running sum of `weight` [n] exceeds `at`, n a multiple of 16; n if
  /// there is none.
  std::ptrdiff_t (*find_running_sum)(std::ptrdiff_t n, const float* weight, float at);

  /// Adds approximately normal noise of this standard deviation to x [n], n a multiple of 16, from Philox
  /// words of `key` by position. The noise is a sum of four bytes, so it is at most 3.46 standard deviations.
  void (*add_noise)(std::ptrdiff_t n, float* x, float deviation, const std::uint32_t* key);

  /// C = act(A B + bias), one layer in one call.   A [m, k] in panels as for `product`; bias [m] padded to a
  /// multiple of 32, or null; B [k, n] column-major with `ldb`; C [m, n] column-major with ldc = m. `act`
  /// sets to 0 the elements that are not above 0 (kRelu), or those whose `gate` element is not above 0
  /// (kGate; gate [m, n] laid out as C). Each C(i, j) is one chain: its bias, then its k products in order.
  void (*affine)(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, const float* a, const float* bias,
                 const float* b, std::ptrdiff_t ldb, Activation act, const float* gate, float* c);

  /// C += A Bᵀ without packing.   A [m, k], B [n, k] and C [m, n] column-major without gaps, m a multiple of
  /// 32. Each C(i, j) adds its k products in order.
  void (*product_of_columns)(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, const float* a,
                             const float* b, float* c);

  // Columns of `rows` elements without gaps, added one by one in the order of `index` [count].
  /// to [rows] = scale · Σ_k from[:, index[k]], from 0 on.
  void (*sum_columns)(std::ptrdiff_t rows, std::ptrdiff_t count, const std::uint32_t* index,
                      const float* from, float scale, float* to);
  /// to[:, index[k]] += from [rows] for every k.
  void (*add_to_columns)(std::ptrdiff_t rows, std::ptrdiff_t count, const std::uint32_t* index,
                         const float* from, float* to);
  /// to [rows] += Σ_k from[:, k], k < count.
  void (*add_columns)(std::ptrdiff_t rows, std::ptrdiff_t count, const float* from, float* to);
};

/// The widest kernels that this machine supports.
const Kernels& kernels();
const Kernels& kernels_v3();
/// Null if this machine does not support them.
const Kernels* kernels_v4();

namespace detail {
extern const Kernels kKernelsV3, kKernelsV4;
}

}  // namespace emplace::policy
