#pragma once
/// What we use of oneDNN, without its types: each function makes one primitive for given shapes, with the
/// reorders and packed copies that it needs around itself. The files onednn*.cc are the only ones that know
/// the library, so a change of its interface ends there.
///
/// Errors of all: kUnsupported if oneDNN has no implementation for the dtypes or shapes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "executor/cpu/kernel.h"

namespace emplace::cpu::onednn {

/// One primitive and what is around it. Immutable; run() from any thread, its memory being the caller's.
class Program {
 public:
  struct Steps;
  explicit Program(std::shared_ptr<const Steps> steps);

  std::size_t scratch_bytes() const;
  /// True if oneDNN offers only slow loops for this.
  bool is_reference() const;
  /// Pointers in the order that the making function names; one that is null is left out, where it may be.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const;

 private:
  std::shared_ptr<const Steps> steps_;
};

/// target = alpha a b (+ seed of the target, if `accumulates`: beta times what it holds).
struct MatMul {
  Operand a, b, target;  ///< [batch…, m, k] [batch…, k, n] [batch…, m, n]; batches of 1 are broadcast.
  std::optional<Operand> bias;  ///< [n], added to each row; for two dimensions and alpha = 1 only.
  float alpha = 1;
  bool accumulates = false;
  float beta = 1;
};
/// a, b (, bias) → target.
Result<Program> matmul(const MatMul& product);

struct Convolution {
  Operand source, weights, target;  ///< [N, C, …] [K, C / groups, …] [N, K, …]
  bool bias = false;                ///< [K], of the dtype of the target; its gradient in kBackwardWeights.
  std::vector<std::int64_t> strides, dilations, pads_begin,
      pads_end;  ///< [spatial dims]; dilation 1 is none.
  std::int64_t groups = 1;
};
enum class ConvolutionPass : std::uint8_t {
  kForward,         ///< source, weights (, bias) → target
  kBackwardData,    ///< target's gradient, weights → source's
  kBackwardWeights  ///< source, target's gradient → weights' (, bias')
};
Result<Program> convolution(const Convolution& shape, ConvolutionPass pass);

/// Of packed tensors.
struct Pooling {
  enum class Of : std::uint8_t { kMax, kMeanInside, kMean };  ///< kMean counts the padding as zeros.
  Of of = Of::kMax;
  Operand source, target;                                                    ///< [N, C, …]
  std::vector<std::int64_t> taps, strides, dilations, pads_begin, pads_end;  ///< [spatial dims]
};
/// source → target. Maxima of NaN, or of nothing but -∞, are unspecified.
Result<Program> pool(const Pooling& shape);
/// target's gradient → source's. Means only.
Result<Program> pool_backward(const Pooling& shape);

/// Over rows of [rows, channels]; what each writes and reads of statistics is the mean and 1 / √(variance +
/// ε).
struct Normalisation {
  enum class Of : std::uint8_t { kBatch, kLayer };  ///< kBatch: over all but C. kLayer: over each row.
  Of of = Of::kBatch;
  Operand source;
  bool affine = false;            ///< There are scale and shift [channels].
  bool fixed_statistics = false;  ///< Mean and variance are inputs (kBatch only).
  float epsilon = 0;
};
/// source (, mean, variance) (, scale, shift) → target (, mean, variance unless fixed_statistics).
Result<Program> normalise(const Normalisation& shape);
/// source, target's gradient, mean, variance (, scale, shift) → source's gradient (, scale's, shift's). The
/// shift must be there though nothing depends on it.
Result<Program> normalise_backward(const Normalisation& shape);

/// Over the last dimension.
struct Softmax {
  Operand source;  ///< Packed.
  bool log = false;
};
/// source → target.
Result<Program> softmax(const Softmax& shape);
/// target, its gradient → source's gradient.
Result<Program> softmax_backward(const Softmax& shape);

}  // namespace emplace::cpu::onednn
