#pragma once
/// The inner loops that training time goes into, for machines with AVX2 and, chosen at run time, with
/// AVX-512. Both give the same bits: each output is one fixed chain of fused multiply-adds, whatever the
/// width (tested).

#include <cstddef>
#include <cstdint>

namespace emplace::policy {

/// Rows of a panel of a packed matrix; see Packed in nn/product.h.
inline constexpr std::ptrdiff_t kPanel = 32;
/// Columns that the attention and softmax kernels read are padded to a multiple of this.
inline constexpr std::ptrdiff_t kPad = 16;
constexpr std::ptrdiff_t padded(std::ptrdiff_t n) { return (n + kPad - 1) / kPad * kPad; }

/// What a fused layer does to its sums.
enum class Activation : std::uint8_t { kNone, kRelu, kGate };

/// Pointers to float32; sizes in elements. Thread: any; no state.
struct Kernels {
  const char* name;  ///< "x86-64-v3" or "x86-64-v4"; kept with a run.

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
  /// Backward of attend from dscores [groups]: adds to dkeys [rows, groups], dquery [rows] and dv [rows].
  void (*attend_backward)(std::ptrdiff_t rows, std::ptrdiff_t groups, const float* keys, const float* query,
                          const float* v, const float* dscores, float* dkeys, float* dquery, float* dv);

  /// Replaces x [n] by e^(x - max x), n a multiple of 16. Returns their sum and writes max x. Padding of
  /// -1e30 weighs nothing.
  float (*exponentials)(std::ptrdiff_t n, float* x, float* peak);
  /// The first index at which the running sum of `weight` [n] exceeds `at`, n a multiple of 16; n if none
  /// does.
  std::ptrdiff_t (*find_running_sum)(std::ptrdiff_t n, const float* weight, float at);

  /// Adds nearly normal noise of this deviation to x [n], n a multiple of 16: Philox words of `key`, by
  /// position. The noise is the sum of four bytes, so it stays within 3.46 deviations.
  void (*add_noise)(std::ptrdiff_t n, float* x, float deviation, const std::uint32_t* key);

  /// C = act(A B + bias), a layer at once.   A [m, k] in panels as for `product`; bias [m] padded to a
  /// multiple of 32, or null for none; B [k, n] column-major with `ldb`; C [m, n] column-major with ldc = m.
  /// `act` keeps what is above 0 (kRelu), or what stands where `gate` [m, n], laid out as C, is above 0
  /// (kGate), and is 0 elsewhere. Each C(i, j) is one chain: its bias, then its k products in order.
  void (*affine)(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, const float* a, const float* bias,
                 const float* b, std::ptrdiff_t ldb, Activation act, const float* gate, float* c);
};

/// The widest that this machine runs.
const Kernels& kernels();
const Kernels& kernels_v3();
/// Null where the machine cannot run them.
const Kernels* kernels_v4();

namespace detail {
extern const Kernels kKernelsV3, kKernelsV4;
}

}  // namespace emplace::policy
