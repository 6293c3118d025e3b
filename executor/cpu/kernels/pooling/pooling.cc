// Pooling over the last two dimensions (the last one for three-dimensional ONNX tensors): maxima with their
// indices, means, adaptive means, and their gradients.
#include <algorithm>

#include "executor/cpu/kernels/pooling/pooling_kernel.h"
#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

using pooling::Axis;
using pooling::EvenMean;
using pooling::EvenMeanBackward;
using pooling::make_loop;
using pooling::Max;
using pooling::MaxBackward;
using pooling::Mean;
using pooling::MeanBackward;
using pooling::Shape;
using Dims = std::vector<std::int64_t>;

/// Planes of the last `spatial` dimensions, 1 or 2. Errors: kUnsupported if the shapes do not match.
Result<Shape> planes_of(const Signature& signature, const Operand& source, const Operand& target,
                        std::size_t spatial) {
  const std::size_t rank = source.shape.size();
  if (spatial < 1 || spatial > 2 || rank < spatial || target.shape.size() != rank ||
      !std::equal(source.shape.begin(), source.shape.end() - static_cast<std::ptrdiff_t>(spatial),
                  target.shape.begin())) {
    return unsupported(signature, "source and target differ outside the pooled dimensions");
  }
  if (source.elements() == 0 || target.elements() == 0) {
    return unsupported(signature, "empty tensors are not supported");
  }
  Shape shape;
  shape.height.source = spatial == 2 ? source.shape[rank - 2] : 1;
  shape.height.target = spatial == 2 ? target.shape[rank - 2] : 1;
  shape.width.source = source.shape[rank - 1];
  shape.width.target = target.shape[rank - 1];
  shape.planes = source.elements() / shape.source_plane();
  if (shape.source_plane() > std::numeric_limits<std::int32_t>::max()) {
    return unsupported(signature, "plane of more than 2^31 elements");
  }
  return shape;
}

/// Completes the shape. Errors: kUnsupported if a window is empty, because its maximum and mean are
/// undefined.
Result<Shape> settled(const Signature& signature, Shape shape) {
  for (const Axis* axis : {&shape.height, &shape.width}) {
    bool sound = axis->taps > 0 && axis->stride > 0 && axis->dilation > 0 && axis->pad >= 0;
    for (std::int64_t p = 0; sound && p < axis->target; ++p) {
      std::int64_t tap = 0;
      while (tap < axis->taps && axis->place(p, tap) < 0) ++tap;
      sound = tap < axis->taps && axis->place(p, tap) < axis->source;
    }
    if (!sound) return unsupported(signature, "a window is empty");
  }
  shape.settle();
  return shape;
}

Result<Shape> aten_shape(const Signature& signature, Attributes& attributes, const Operand& source,
                         const Operand& target) {
  EMPLACE_TRY_ASSIGN(auto shape, planes_of(signature, source, target, 2));
  const auto pair = [&](std::string_view name, const Dims& fallback) {
    Dims values = attributes.integers(name, fallback);
    if (values.empty()) values = fallback;
    if (values.size() == 1) values.push_back(values[0]);
    return values;
  };
  const Dims taps = pair("kernel_size", {0, 0}), strides = pair("stride", taps);
  const Dims padding = pair("padding", {0, 0}), dilations = pair("dilation", {1, 1});
  if (taps.size() != 2 || strides.size() != 2 || padding.size() != 2 || dilations.size() != 2) {
    return unsupported(signature, "expected one or two values of kernel_size, stride, padding and dilation");
  }
  Axis &height = shape.height, &width = shape.width;
  height = {height.source, height.target, taps[0], strides[0], padding[0], dilations[0], padding[0]};
  width = {width.source, width.target, taps[1], strides[1], padding[1], dilations[1], padding[1]};
  return settled(signature, std::move(shape));
}

Result<Shape> onnx_shape(const Signature& signature, Attributes& attributes) {
  const Dims taps = attributes.integers("kernel_shape");
  const std::size_t spatial = taps.size();
  EMPLACE_TRY_ASSIGN(auto shape, planes_of(signature, signature.inputs[0], signature.outputs[0], spatial));
  const Dims strides = attributes.integers("strides", Dims(spatial, 1));
  const Dims dilations = attributes.integers("dilations", Dims(spatial, 1));
  Dims pads = attributes.integers("pads", Dims(2 * spatial, 0));
  if (strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial) {
    return unsupported(signature,
                       "expected values of strides, dilations and pads for each spatial dimension");
  }
  const std::string automatic = attributes.word("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID" && !automatic.starts_with("SAME_")) {
    return unsupported(signature, "auto_pad " + automatic + " is unknown");
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    Axis& axis = spatial == 2 && d == 0 ? shape.height : shape.width;
    std::int64_t begin = pads[d], end = pads[spatial + d];
    if (automatic != "NOTSET") {
      const std::int64_t seen = (axis.target - 1) * strides[d] + (taps[d] - 1) * dilations[d] + 1;
      const std::int64_t total = automatic == "VALID" ? 0 : std::max<std::int64_t>(0, seen - axis.source);
      begin = automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
      end = total - begin;
    }
    axis = {axis.source, axis.target, taps[d], strides[d], begin, dilations[d], end};
  }
  return settled(signature, std::move(shape));
}

bool has(const Signature& signature, std::size_t inputs, std::size_t outputs) {
  return signature.inputs.size() == inputs && signature.outputs.size() == outputs;
}
Error wrong_count(const Signature& signature) {
  return unsupported(signature, "wrong number of inputs or outputs");
}

using Made = Result<std::unique_ptr<Kernel>>;

/// The equivalent oneDNN program (three to six times as fast on one core). Empty for f64, and where the
/// result differs: a window beyond the padding divides by less than its size.
std::optional<onednn::Program> library_program(const Shape& shape, onednn::Pooling::Of of, DType dtype,
                                               bool backward) {
  if (dtype != DType::kF32 && dtype != DType::kBF16) return std::nullopt;
  onednn::Pooling pooling{.of = of};
  const auto tensor = [&](std::int64_t rows, std::int64_t columns) {
    return packed(Operand{dtype, {1, shape.planes, rows, columns}, {0, 0, 0, 0}});
  };
  pooling.source = tensor(shape.height.source, shape.width.source);
  pooling.target = tensor(shape.height.target, shape.width.target);
  for (const Axis* axis : {&shape.height, &shape.width}) {
    const std::int64_t seen = axis->place(axis->target - 1, axis->taps - 1) + 1 - axis->source;
    if (of == onednn::Pooling::Of::kMean && seen > axis->pad_end) return std::nullopt;
    pooling.taps.push_back(axis->taps);
    pooling.strides.push_back(axis->stride);
    pooling.dilations.push_back(axis->dilation);
    pooling.pads_begin.push_back(axis->pad);
    pooling.pads_end.push_back(std::max<std::int64_t>(0, seen));
  }
  auto program = backward ? onednn::pool_backward(pooling) : onednn::pool(pooling);
  // bf16 has no other implementation.
  if (!program.ok() || (program->is_reference() && dtype == DType::kF32)) return std::nullopt;
  return std::move(program).value();
}

onednn::Pooling::Of mean_of(bool with_padding) {
  return with_padding ? onednn::Pooling::Of::kMean : onednn::Pooling::Of::kMeanInside;
}

Made make_mean_of(const Signature& signature, const Shape& shape, bool with_padding, std::int64_t divisor) {
  const DType dtype = signature.outputs[0].dtype;
  if (divisor == 0 && signature.inputs[0].dtype == dtype) {
    if (auto program = library_program(shape, mean_of(with_padding), dtype, /*backward=*/false)) {
      return program_kernel(signature, *std::move(program));
    }
  }
  return make_loop(signature, shape, [&]<class T>(T) { return Mean<T>{{shape, with_padding, divisor}}; });
}

Made make_max(const Signature& signature) {
  if (!has(signature, 1, 2) || signature.outputs[1].dtype != DType::kI64) return wrong_count(signature);
  Attributes attributes{signature};
  const auto shape = aten_shape(signature, attributes, signature.inputs[0], signature.outputs[0]);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  return make_loop(signature, *shape, []<class T>(T) { return Max<T>{}; });
}

Made make_max_backward(const Signature& signature) {
  if (!has(signature, 3, 1) || signature.inputs[2].dtype != DType::kI64) return wrong_count(signature);
  EMPLACE_TRY_ASSIGN(const auto shape, planes_of(signature, signature.outputs[0], signature.inputs[0], 2));
  if (signature.inputs[2].shape != signature.inputs[0].shape) {
    return unsupported(signature, "indices and gradient differ in shape");
  }
  return make_loop(signature, shape, []<class T>(T) { return MaxBackward<T>{}; });
}

Made make_mean(const Signature& signature) {
  if (!has(signature, 1, 1)) return wrong_count(signature);
  Attributes attributes{signature};
  const auto shape = aten_shape(signature, attributes, signature.inputs[0], signature.outputs[0]);
  const bool with_padding = attributes.flag("count_include_pad", true);
  const std::int64_t divisor = attributes.integer("divisor_override", 0);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  return make_mean_of(signature, *shape, with_padding, divisor);
}

Made make_mean_backward(const Signature& signature) {
  if (!has(signature, 2, 1)) return wrong_count(signature);
  Attributes attributes{signature};
  const auto shape = aten_shape(signature, attributes, signature.outputs[0], signature.inputs[0]);
  // The graph formats write this argument only if it is true; unlike the forward op it has no default.
  const bool with_padding = attributes.flag("count_include_pad", false);
  const std::int64_t divisor = attributes.integer("divisor_override", 0);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  const DType dtype = signature.outputs[0].dtype;
  if (divisor == 0 && signature.inputs[0].dtype == dtype) {
    if (auto program = library_program(*shape, mean_of(with_padding), dtype, /*backward=*/true)) {
      return program_kernel(signature, *std::move(program));
    }
  }
  return make_loop(signature, *shape, [&]<class T>(T) {
    return MeanBackward<T>{{*shape, with_padding, divisor}};
  });
}

Made make_even(const Signature& signature) {
  if (!has(signature, 1, 1)) return wrong_count(signature);
  EMPLACE_TRY_ASSIGN(const auto shape, planes_of(signature, signature.inputs[0], signature.outputs[0], 2));
  return make_loop(signature, shape, []<class T>(T) { return EvenMean<T>{}; });
}

Made make_even_backward(const Signature& signature) {
  if (!has(signature, 2, 1)) return wrong_count(signature);
  EMPLACE_TRY_ASSIGN(const auto shape, planes_of(signature, signature.outputs[0], signature.inputs[0], 2));
  return make_loop(signature, shape, []<class T>(T) { return EvenMeanBackward<T>{}; });
}

Made make_onnx_max(const Signature& signature) {
  const bool places = has(signature, 1, 2) && signature.outputs[1].dtype == DType::kI64;
  if (!has(signature, 1, 1) && !places) return wrong_count(signature);
  Attributes attributes{signature};
  const auto shape = onnx_shape(signature, attributes);
  const bool by_column = attributes.flag("storage_order", false);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  if (places && by_column)
    return unsupported(signature, "column-major indices (storage_order 1) are not supported");
  const DType dtype = signature.outputs[0].dtype;
  if (!places && signature.inputs[0].dtype == dtype) {
    if (auto program = library_program(*shape, onednn::Pooling::Of::kMax, dtype, /*backward=*/false)) {
      return program_kernel(signature, *std::move(program));
    }
  }
  return make_loop(signature, *shape, []<class T>(T) { return Max<T>{.global_places = true}; });
}

Made make_onnx_mean(const Signature& signature) {
  if (!has(signature, 1, 1)) return wrong_count(signature);
  Attributes attributes{signature};
  const auto shape = onnx_shape(signature, attributes);
  const bool with_padding = attributes.flag("count_include_pad", false);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  if (shape->height.dilation != 1 || shape->width.dilation != 1) {
    return unsupported(signature, "means with dilations are not supported");
  }
  return make_mean_of(signature, *shape, with_padding, 0);
}

/// All spatial dimensions are merged into one row.
Made make_global_mean(const Signature& signature) {
  if (!has(signature, 1, 1) || signature.inputs[0].shape.size() < 3) return wrong_count(signature);
  const Operand& source = signature.inputs[0];
  const std::int64_t planes = source.shape[0] * source.shape[1];
  if (source.elements() == 0 || signature.outputs[0].elements() != planes) {
    return unsupported(signature, "expected one output value per plane");
  }
  Shape shape{.planes = planes};
  shape.height = {.source = 1, .target = 1};
  shape.width = {.source = source.elements() / planes, .target = 1};
  return make_loop(signature, shape, []<class T>(T) { return EvenMean<T>{}; });
}

template <MakeKernel make>
Made packed_first(const Signature& signature) {
  return with_packed_inputs(signature, make);
}

constexpr KernelEntry kPoolingKernels[] = {
    {"aten::max_pool2d_with_indices", packed_first<make_max>},
    {"aten::max_pool2d_with_indices_backward", packed_first<make_max_backward>},
    {"aten::avg_pool2d", packed_first<make_mean>},
    {"aten::avg_pool2d_backward", packed_first<make_mean_backward>},
    {"aten::_adaptive_avg_pool2d", packed_first<make_even>},
    {"aten::_adaptive_avg_pool2d_backward", packed_first<make_even_backward>},
    {"MaxPool", packed_first<make_onnx_max>},
    {"AveragePool", packed_first<make_onnx_mean>},
    {"GlobalAveragePool", packed_first<make_global_mean>},
};

}  // namespace

std::span<const KernelEntry> pooling_kernels() { return kPoolingKernels; }

}  // namespace emplace::cpu
