// Batch and layer normalisation. The first pass computes the statistics of a row (Welford's update, robust
// for large means), the second one its elements. A row is a channel, or the elements that layer norm
// normalises.
#include "executor/cuda/kernels/divisor.h"
#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

/// Channels: row c of [outer, rows, inner]. Layers: row r of [rows, size].
struct Rows {
  Rows() = default;
  Rows(std::int64_t rows_, std::int64_t inner_, bool channels_)
      : rows{rows_}, by_rows{rows_}, inner{inner_}, channels{channels_} {}
  std::int64_t rows = 1;
  Divisor by_rows, inner;  ///< Layers: inner is the size of a row.
  bool channels = false;
  EMPLACE_HD std::int64_t at(std::int64_t row, std::int64_t k) const {
    if (!channels) return row * inner.value() + k;
    std::int64_t column = 0;
    const std::int64_t outer = inner.divide(k, column);
    return (outer * rows + row) * inner.value() + column;
  }
  EMPLACE_HD std::int64_t row_of(std::int64_t i) const {
    const std::int64_t row = inner.quotient(i);
    return channels ? by_rows.rest(row) : row;
  }
  /// Index of the weight of an element.
  EMPLACE_HD std::int64_t weight_of(std::int64_t i) const {
    return channels ? by_rows.rest(inner.quotient(i)) : inner.rest(i);
  }
};

struct Moments {
  static constexpr const char* kName = "moments";
  struct Part {
    float mean, squares, count;
  };
  Rows rows;
  float epsilon = 1e-5f;
  const float* in = nullptr;
  float *mean = nullptr, *inverse = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), mean = pointers.output<float>(1), inverse = pointers.output<float>(2);
  }
  EMPLACE_HD Part zero() const { return {0.0f, 0.0f, 0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t row, std::int64_t k) const {
    const float x = in[rows.at(row, k)], off = x - part.mean;
    part.count += 1.0f;
    part.mean += off / part.count;
    part.squares += off * (x - part.mean);
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) {
    if (other.count == 0.0f) return;
    const float count = part.count + other.count, off = other.mean - part.mean, share = other.count / count;
    part.mean += off * share;
    part.squares += other.squares + off * off * part.count * share;
    part.count = count;
  }
  EMPLACE_HD void finish(std::int64_t row, const Part& part) const {
    mean[row] = part.mean;
    inverse[row] = 1.0f / sqrtf(part.squares / part.count + epsilon);
  }
};

/// y = (x - mean) inverse weight + bias. Inputs: x, weight, bias; statistics from outputs 1 and 2.
struct Scale {
  static constexpr const char* kName = "normalise";
  Rows rows;
  const float *in = nullptr, *weight = nullptr, *bias = nullptr, *mean = nullptr, *inverse = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), weight = pointers.input<float>(1), bias = pointers.input<float>(2);
    out = pointers.output<float>(0), mean = pointers.output<float>(1), inverse = pointers.output<float>(2);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const std::int64_t row = rows.row_of(i), w = rows.weight_of(i);
    out[i] = (in[i] - mean[row]) * inverse[row] * weight[w] + bias[w];
  }
};

/// As Scale, with given statistics. Inputs: x, weight, bias, mean, variance.
struct ScaleByRunning {
  static constexpr const char* kName = "normalise by running statistics";
  Rows rows;
  float epsilon = 1e-5f;
  bool writes_statistics = false;  ///< True: outputs 1 and 2 receive mean and inverse deviation.
  const float *in = nullptr, *weight = nullptr, *bias = nullptr, *mean = nullptr, *variance = nullptr;
  float *out = nullptr, *out_mean = nullptr, *out_inverse = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), weight = pointers.input<float>(1), bias = pointers.input<float>(2);
    mean = pointers.input<float>(3), variance = pointers.input<float>(4), out = pointers.output<float>(0);
    if (writes_statistics) out_mean = pointers.output<float>(1), out_inverse = pointers.output<float>(2);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const std::int64_t c = rows.row_of(i);
    const float inverse = 1.0f / sqrtf(variance[c] + epsilon);
    out[i] = (in[i] - mean[c]) * inverse * weight[c] + bias[c];
    if (!writes_statistics || i >= rows.rows) return;  // The first `rows` threads write the statistics.
    out_mean[i] = mean[i];
    out_inverse[i] = 1.0f / sqrtf(variance[i] + epsilon);
  }
};

/// Input positions of the backward passes.
struct BackwardInputs {
  std::size_t x = 1, weight = 2, mean = 5, inverse = 6;
};

/// Sums of g and of g x̂ per row, where g = dy (times the weight if it varies within the row).
struct GradientSums {
  static constexpr const char* kName = "normalise_backward rows";
  struct Part {
    float g, gx;
  };
  Rows rows;
  BackwardInputs from;
  bool weighted = false;
  bool writes_gradients = false;  ///< True: the sums are the gradients of bias and weight, outputs 2 and 1.
  std::size_t scratch_at = 0;
  const float *dy = nullptr, *x = nullptr, *weight = nullptr, *mean = nullptr, *inverse = nullptr;
  float *found = nullptr, *d_weight = nullptr, *d_bias = nullptr;

  void bind(const Pointers& pointers) {
    dy = pointers.input<float>(0), x = pointers.input<float>(from.x),
    weight = pointers.input<float>(from.weight);
    mean = pointers.input<float>(from.mean), inverse = pointers.input<float>(from.inverse);
    found = pointers.scratch_at<float>(scratch_at);
    if (writes_gradients) d_weight = pointers.output<float>(1), d_bias = pointers.output<float>(2);
  }
  EMPLACE_HD Part zero() const { return {0.0f, 0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t row, std::int64_t k) const {
    const std::int64_t at = rows.at(row, k);
    const float g = weighted ? dy[at] * weight[rows.weight_of(at)] : dy[at];
    part.g += g;
    part.gx += g * (x[at] - mean[row]) * inverse[row];
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) { part.g += other.g, part.gx += other.gx; }
  EMPLACE_HD void finish(std::int64_t row, const Part& part) const {
    found[2 * row] = part.g, found[2 * row + 1] = part.gx;
    if (writes_gradients) d_weight[row] = part.gx, d_bias[row] = part.g;
  }
};

/// dx = inverse (g - (Σg + x̂ Σg x̂) / n)
struct InputGradient {
  static constexpr const char* kName = "normalise_backward";
  Rows rows;
  BackwardInputs from;
  bool fixed = false;  ///< True: statistics are given, and dx = dy inverse weight.
  float columns = 1;
  std::size_t scratch_at = 0;
  const float *dy = nullptr, *x = nullptr, *weight = nullptr, *mean = nullptr, *inverse = nullptr,
              *found = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    dy = pointers.input<float>(0), x = pointers.input<float>(from.x),
    weight = pointers.input<float>(from.weight);
    mean = pointers.input<float>(from.mean), inverse = pointers.input<float>(from.inverse);
    found = pointers.scratch_at<float>(scratch_at), out = pointers.output<float>(0);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const std::int64_t row = rows.row_of(i);
    const float w = weight[rows.weight_of(i)], s = inverse[row];
    if (fixed) {
      out[i] = dy[i] * s * w;
      return;
    }
    const float normal = (x[i] - mean[row]) * s;
    // A weight that is constant in the row is not part of the sums.
    const float factor = rows.channels ? w : 1.0f;
    const float g = rows.channels ? dy[i] : dy[i] * w;
    out[i] = factor * s * (g - (found[2 * row] + normal * found[2 * row + 1]) / columns);
  }
};

/// Gradients of layer norm's weights: a row is a weight, the columns are the layers.
struct WeightGradients {
  static constexpr const char* kName = "layer_norm_backward weights";
  struct Part {
    float g, gx;
  };
  std::int64_t size = 1;
  BackwardInputs from;
  const float *dy = nullptr, *x = nullptr, *mean = nullptr, *inverse = nullptr;
  float *d_weight = nullptr, *d_bias = nullptr;

  void bind(const Pointers& pointers) {
    dy = pointers.input<float>(0), x = pointers.input<float>(from.x);
    mean = pointers.input<float>(from.mean), inverse = pointers.input<float>(from.inverse);
    d_weight = pointers.output<float>(1), d_bias = pointers.output<float>(2);
  }
  EMPLACE_HD Part zero() const { return {0.0f, 0.0f}; }
  EMPLACE_HD void add(Part& part, std::int64_t w, std::int64_t layer) const {
    const std::int64_t at = layer * size + w;
    part.g += dy[at];
    part.gx += dy[at] * (x[at] - mean[layer]) * inverse[layer];
  }
  EMPLACE_HD static void merge(Part& part, const Part& other) { part.g += other.g, part.gx += other.gx; }
  EMPLACE_HD void finish(std::int64_t w, const Part& part) const {
    d_weight[w] = part.gx, d_bias[w] = part.g;
  }
};

Result<Unit> expect_packed(const Signature& signature) {
  for (const Operand& in : signature.inputs)
    if (!in.is_packed()) return unsupported(signature, "expected a packed input");
  return Unit{};
}

Rows channels_of(const Operand& x) {
  if (x.shape.size() < 2) return {1, 1, true};
  return {x.shape[1], count_of(std::span{x.shape}.subspan(2)), true};
}

Made batch_norm(const Signature& signature, bool training, float epsilon, int outputs) {
  EMPLACE_TRY(expect(signature, 5, outputs));
  EMPLACE_TRY(expect_packed(signature));
  const Operand& x = signature.inputs[0];
  const Rows rows = channels_of(x);
  const std::int64_t count = x.elements();
  auto kernel = std::make_unique<OwnKernel>();
  if (training) {
    if (outputs != 3) return unsupported(signature, "expected three outputs in training mode");
    add_reduce(*kernel, Moments{rows, epsilon}, rows.rows, count / std::max<std::int64_t>(rows.rows, 1),
               false);
    add_each(*kernel, Scale{rows}, count);
  } else {
    const bool writes_statistics = outputs == 3 && signature.outputs[1].elements() == rows.rows;
    if (writes_statistics && count < rows.rows)
      return unsupported(signature, "empty inputs are not supported");
    add_each(*kernel, ScaleByRunning{rows, epsilon, writes_statistics}, count);
  }
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made aten_batch_norm(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const bool training,
                     read(signature, [](auto& of) { return of.flag("training", true); }));
  EMPLACE_TRY_ASSIGN(const float epsilon, number(signature, "eps", 1e-5));
  return batch_norm(signature, training, epsilon, 3);
}

Made onnx_batch_norm(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const float epsilon, number(signature, "epsilon", 1e-5));
  return batch_norm(signature, false, epsilon, 1);
}

Made batch_norm_backward(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const bool training, read(signature, [](auto& of) { return of.flag("train", true); }));
  EMPLACE_TRY(expect(signature, 7, 3));
  EMPLACE_TRY(expect_packed(signature));
  if (!training) return unsupported(signature, "running statistics are not supported");
  const Operand& x = signature.inputs[1];
  const Rows rows = channels_of(x);
  const std::int64_t count = x.elements(), columns = count / std::max<std::int64_t>(rows.rows, 1);
  auto kernel = std::make_unique<OwnKernel>();
  const std::size_t at = kernel->take_scratch(static_cast<std::size_t>(rows.rows) * 2 * sizeof(float));
  GradientSums sums{.rows = rows, .writes_gradients = true, .scratch_at = at};
  add_reduce(*kernel, sums, rows.rows, columns, false);
  add_each(*kernel, InputGradient{.rows = rows, .columns = static_cast<float>(columns), .scratch_at = at},
           count);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

/// Number of elements normalised together in layer norm.
Result<std::int64_t> layer_size(const Signature& signature, const Operand& x) {
  EMPLACE_TRY_ASSIGN(const auto shape,
                     read(signature, [](auto& of) { return of.integers("normalized_shape"); }));
  const std::int64_t size = count_of(shape);
  if (shape.empty() || size <= 0 || x.elements() % size != 0)
    return unsupported(signature, "normalized_shape does not match the last dimensions of the input");
  return size;
}

Made layer_norm(const Signature& signature) {
  EMPLACE_TRY(expect(signature, 3, 3));
  EMPLACE_TRY(expect_packed(signature));
  const Operand& x = signature.inputs[0];
  EMPLACE_TRY_ASSIGN(const auto size, layer_size(signature, x));
  EMPLACE_TRY_ASSIGN(const float epsilon, number(signature, "eps", 1e-5));
  const Rows rows{x.elements() / size, size, false};
  auto kernel = std::make_unique<OwnKernel>();
  add_reduce(*kernel, Moments{rows, epsilon}, rows.rows, size, false);
  add_each(*kernel, Scale{rows}, x.elements());
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

Made layer_norm_backward(const Signature& signature) {
  EMPLACE_TRY(expect(signature, 6, 3));
  EMPLACE_TRY(expect_packed(signature));
  const Operand& x = signature.inputs[1];
  EMPLACE_TRY_ASSIGN(const auto size, layer_size(signature, x));
  const Rows rows{x.elements() / size, size, false};
  const BackwardInputs from{.x = 1, .weight = 4, .mean = 2, .inverse = 3};
  auto kernel = std::make_unique<OwnKernel>();
  const std::size_t at = kernel->take_scratch(static_cast<std::size_t>(rows.rows) * 2 * sizeof(float));
  GradientSums sums{.rows = rows, .from = from, .weighted = true, .scratch_at = at};
  add_reduce(*kernel, sums, rows.rows, size, false);
  add_each(*kernel,
           InputGradient{.rows = rows, .from = from, .columns = static_cast<float>(size), .scratch_at = at},
           x.elements());
  add_reduce(*kernel, WeightGradients{.size = size, .from = from}, size, rows.rows, true);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

}  // namespace

std::span<const KernelEntry> normalisation_kernels() {
  static constexpr KernelEntry entries[] = {{"aten::native_batch_norm", aten_batch_norm},
                                            {"aten::native_batch_norm_backward", batch_norm_backward},
                                            {"aten::native_layer_norm", layer_norm},
                                            {"aten::native_layer_norm_backward", layer_norm_backward},
                                            {"BatchNormalization", onnx_batch_norm}};
  return entries;
}

}  // namespace emplace::cuda
