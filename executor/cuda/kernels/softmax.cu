// softmax and log_softmax along one dimension, forward and backward. The first pass computes the values of
// a row, the second one its elements.
#include <cmath>

#include "executor/cuda/kernels/divisor.h"
#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

/// A packed tensor as [outer, size, inner]; a row has `size` elements at fixed outer and inner indices.
struct Rows {
  Rows(std::int64_t size_, std::int64_t inner_) : size{size_}, inner{inner_}, both{size_ * inner_} {}
  std::int64_t size;
  Divisor inner, both;
  EMPLACE_HD std::int64_t at(std::int64_t row, std::int64_t k) const {
    std::int64_t column = 0;
    const std::int64_t outer = inner.divide(row, column);
    return (outer * size + k) * inner.value() + column;
  }
  EMPLACE_HD std::int64_t row_of(std::int64_t i) const {
    return both.quotient(i) * inner.value() + inner.rest(i);
  }
};

struct RowMax {
  float max, sum;
};

struct MaxAndSum {
  static constexpr const char* kName = "softmax rows";
  using Part = RowMax;  // The sum is Σ exp(x - max).
  Rows rows;
  std::size_t scratch_at = 0;
  const float* in = nullptr;
  RowMax* found = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), found = pointers.scratch_at<RowMax>(scratch_at);
  }
  EMPLACE_HD Part zero() const { return {-INFINITY, 0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t row, std::int64_t k) const {
    merge(part, RowMax{in[rows.at(row, k)], 1.0f});
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) {
    // A masked element adds nothing, wherever the row's maximum is: exp(-inf - -inf) would be NaN. A row of
    // such elements keeps a sum of 0, and its results are NaN as in PyTorch.
    if (other.sum == 0.0f || other.max == -INFINITY) return;
    if (other.max > part.max) {
      part.sum = part.sum * expf(part.max - other.max) + other.sum;
      part.max = other.max;
    } else {
      part.sum += other.sum * expf(other.max - part.max);
    }
  }
  EMPLACE_HD void finish(std::int64_t row, const Part& part) const { found[row] = part; }
};

struct Normalise {
  static constexpr const char* kName = "softmax";
  Rows rows;
  bool log = false;
  std::size_t scratch_at = 0;
  const float* in = nullptr;
  float* out = nullptr;
  const RowMax* found = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), out = pointers.output<float>(0),
    found = pointers.scratch_at<RowMax>(scratch_at);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const RowMax row = found[rows.row_of(i)];
    out[i] = log ? in[i] - row.max - logf(row.sum) : expf(in[i] - row.max) / row.sum;
  }
};

/// Inputs: gradient, result.
struct GradientSum {
  static constexpr const char* kName = "softmax_backward rows";
  struct Part {
    float sum;
  };
  Rows rows;
  bool log = false;
  std::size_t scratch_at = 0;
  const float *gradient = nullptr, *result = nullptr;
  float* found = nullptr;

  void bind(const Pointers& pointers) {
    gradient = pointers.input<float>(0), result = pointers.input<float>(1),
    found = pointers.scratch_at<float>(scratch_at);
  }
  EMPLACE_HD Part zero() const { return {0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t row, std::int64_t k) const {
    const std::int64_t at = rows.at(row, k);
    part.sum += log ? gradient[at] : gradient[at] * result[at];
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) { part.sum += other.sum; }
  EMPLACE_HD void finish(std::int64_t row, const Part& part) const { found[row] = part.sum; }
};

struct Backward {
  static constexpr const char* kName = "softmax_backward";
  Rows rows;
  bool log = false;
  std::size_t scratch_at = 0;
  const float *gradient = nullptr, *result = nullptr, *found = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    gradient = pointers.input<float>(0), result = pointers.input<float>(1), out = pointers.output<float>(0);
    found = pointers.scratch_at<float>(scratch_at);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const float sum = found[rows.row_of(i)];
    out[i] = log ? gradient[i] - expf(result[i]) * sum : result[i] * (gradient[i] - sum);
  }
};

Made make(const Signature& signature, std::int64_t dim, bool log, bool backward) {
  EMPLACE_TRY(expect(signature, backward ? 2 : 1, 1));
  const Operand& out = signature.outputs[0];
  for (const Operand& in : signature.inputs)
    if (in.shape != out.shape || !in.is_packed()) return unsupported(signature, "expected a packed input");
  const auto rank = static_cast<std::int64_t>(out.shape.size());
  if (dim < -rank || dim >= rank) return unsupported(signature, "dimension out of range");
  const auto axis = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  const std::int64_t inner = count_of(std::span{out.shape}.subspan(axis + 1));
  const Rows rows{out.shape[axis], inner};
  const std::int64_t count = out.elements(), num_rows = rows.size == 0 ? 0 : count / rows.size;
  auto kernel = std::make_unique<OwnKernel>();
  const std::size_t at = kernel->take_scratch(static_cast<std::size_t>(num_rows) * sizeof(RowMax));
  if (backward) {
    add_reduce(*kernel, GradientSum{rows, log, at}, num_rows, rows.size, inner >= 32);
    add_each(*kernel, Backward{rows, log, at}, count);
  } else {
    add_reduce(*kernel, MaxAndSum{rows, at}, num_rows, rows.size, inner >= 32);
    add_each(*kernel, Normalise{rows, log, at}, count);
  }
  kernel->allow_overwrite(0);
  if (backward) kernel->allow_overwrite(1);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

template <bool kLog, bool kBackward>
Made along(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto dim, read(signature, [](auto& of) {
                       return of.integer(of.has("axis") ? "axis" : "dim", -1);
                     }));
  return make(signature, dim, kLog, kBackward);
}

}  // namespace

std::span<const KernelEntry> softmax_kernels() {
  static constexpr KernelEntry entries[] = {{"aten::_softmax Softmax", along<false, false>},
                                            {"aten::_log_softmax LogSoftmax", along<true, false>},
                                            {"aten::_softmax_backward_data", along<false, true>},
                                            {"aten::_log_softmax_backward_data", along<true, true>}};
  return entries;
}

}  // namespace emplace::cuda
