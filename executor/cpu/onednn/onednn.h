#pragma once
/// Interface to oneDNN without its types. Each function creates one primitive for given shapes, with the
/// required reorders and packed copies. Only the files onednn*.cc depend on the library's interface.
///
/// Errors of all functions: kUnsupported if oneDNN has no implementation for the dtypes or shapes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/cpu/kernel.h"

namespace emplace::cpu::onednn {

std::string version();  ///< Version of the loaded library: "oneDNN 2.6.3".

/// One primitive with its reorders. Immutable; run() from any thread, with memory of the caller.
class Program {
 public:
  struct Steps;
  explicit Program(std::shared_ptr<const Steps> steps);

  std::size_t scratch_bytes() const;
  /// True if oneDNN has only a slow reference implementation.
  bool is_reference() const;
  /// Pointers in the order stated by the creating function. A null pointer omits an optional argument.
  void run(const Pointers& memory) const;

 private:
  std::shared_ptr<const Steps> steps_;
};

/// target = alpha a b (+ beta times the target's previous value, if `accumulates`).
struct MatMul {
  Operand a, b, target;  ///< [batch…, m, k] [batch…, k, n] [batch…, m, n]; batches of 1 are broadcast.
  std::optional<Operand> bias;  ///< [n], added to each row; only for two dimensions and alpha = 1.
  float alpha = 1;
  bool accumulates = false;
  float beta = 1;
};
/// a, b (, bias) → target.
Result<Program> matmul(const MatMul& product);

struct Convolution {
  Operand source, weights, target;  ///< [N, C, …] [K, C / groups, …] [N, K, …]
  bool bias = false;                ///< [K], dtype of the target. In kBackwardWeights: its gradient.
  std::vector<std::int64_t> strides, dilations, pads_begin,
      pads_end;  ///< [spatial dims]; dilation 1: no gaps.
  std::int64_t groups = 1;
};
enum class ConvolutionPass : std::uint8_t {
  kForward,         ///< source, weights (, bias) → target
  kBackwardData,    ///< target's gradient, weights → source's
  kBackwardWeights  ///< source, target's gradient → weights' (, bias')
};
Result<Program> convolution(const Convolution& shape, ConvolutionPass pass);

/// Pooling of packed tensors.
struct Pooling {
  enum class Of : std::uint8_t { kMax, kMeanInside, kMean };  ///< kMean counts the padding as zeros.
  Of of = Of::kMax;
  Operand source, target;                                                    ///< [N, C, …]
  std::vector<std::int64_t> taps, strides, dilations, pads_begin, pads_end;  ///< [spatial dims]
};
/// source → target. Maxima are unspecified for windows with NaN or only -∞.
Result<Program> pool(const Pooling& shape);
/// target's gradient → source's gradient. Means only.
Result<Program> pool_backward(const Pooling& shape);

/// Normalisation of rows [rows, channels]. Statistics are mean and 1 / √(variance + ε).
struct Normalisation {
  /// kBatch: over all dimensions but C. kLayer: over each row.
  enum class Of : std::uint8_t { kBatch, kLayer };
  Of of = Of::kBatch;
  Operand source;
  bool affine = false;            ///< True: with scale and shift [channels].
  bool fixed_statistics = false;  ///< True: mean and variance are inputs (kBatch only).
  float epsilon = 0;
};
/// source (, mean, variance) (, scale, shift) → target (, mean, variance unless fixed_statistics).
Result<Program> normalise(const Normalisation& shape);
/// source, target's gradient, mean, variance (, scale, shift) → source's gradient (, scale's, shift's). The
/// shift must be given although the result does not depend on it.
Result<Program> normalise_backward(const Normalisation& shape);

/// Softmax over the last dimension.
struct Softmax {
  Operand source;  ///< Packed.
  bool log = false;
};
/// source → target.
Result<Program> softmax(const Softmax& shape);
/// target, target's gradient → source's gradient.
Result<Program> softmax_backward(const Softmax& shape);

}  // namespace emplace::cpu::onednn
