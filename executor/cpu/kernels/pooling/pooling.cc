// Pooling over the last two dimensions (the last one for three-dimensional ONNX tensors): maxima with their
// indices, means, adaptive means, and their gradients.
#include <algorithm>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/pooling/pooling_loops.h"
#include "executor/cpu/onednn/onednn.h"
#include "executor/cpu/onednn/program_kernel.h"
#include "executor/cpu/packed_inputs.h"

namespace emplace::cpu {
namespace {

using pooling::Axis;
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

/// The equivalent oneDNN program (three to six times as fast on one core). Empty for f64, and where the
/// result differs: a window beyond the padding divides by less than its size.
std::optional<onednn::Program> library_program(const Shape& shape, onednn::Pooling::Of of, DType dtype,
                                               bool backward) {
  if (dtype != DType::kF32 && dtype != DType::kBF16) return std::nullopt;
  onednn::Pooling pooling{.of = of};
  const auto tensor = [&](std::int64_t rows, std::int64_t columns) {
    return packed(dtype, {1, shape.planes, rows, columns});
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

/// Calls `make(T{})`, which makes the kernel for elements of type T.
template <class Make>
Made by_element(const Signature& signature, Make make) {
  const DType dtype = signature.outputs[0].dtype;
  if (signature.inputs[0].dtype != dtype) return unsupported(signature, "inputs and outputs differ in dtype");
  // Reached for bf16 only if oneDNN refused it: older processors do not support bf16.
  const std::string_view library = dtype == DType::kBF16 ? "oneDNN: " : "";
  Made refused = unsupported(signature, std::string{library} + "dtype " + std::string{dtype_name(dtype)});
  return visit_dtype<float, double>(dtype, std::move(refused), make);
}

/// Calls visit(number, source, target) for each plane. The source is input 0 and the target is output 0;
/// backward it is the other way round.
template <class T, bool backward, class Visit>
void each_plane(const Shape& shape, const Pointers& memory, Visit visit) {
  for (std::int64_t p = 0; p < shape.planes; ++p) {
    const std::int64_t source = p * shape.source_plane(), target = p * shape.target_plane();
    if constexpr (backward) {
      visit(p, memory.output<T>(0) + source, memory.input<T>(0) + target);
    } else {
      visit(p, memory.input<T>(0) + source, memory.output<T>(0) + target);
    }
  }
}

/// The divisor of the sum at (y, x) is rows[y] · columns[x].
template <class T>
struct Divisors {
  std::vector<T> rows, columns;
  Divisors(const Shape& shape, bool with_padding, std::int64_t instead)
      : rows(static_cast<std::size_t>(shape.height.target), static_cast<T>(instead)),
        columns(static_cast<std::size_t>(shape.width.target), T{1}) {
    if (instead != 0) return;
    for (std::size_t y = 0; y < rows.size(); ++y) {
      rows[y] = static_cast<T>(shape.height.counted(static_cast<std::int64_t>(y), with_padding));
    }
    for (std::size_t x = 0; x < columns.size(); ++x) {
      columns[x] = static_cast<T>(shape.width.counted(static_cast<std::int64_t>(x), with_padding));
    }
  }
};

/// Source → means; backward: means' gradient, source → source's gradient.
template <bool backward>
Made make_mean_of(const Signature& signature, const Shape& shape, bool with_padding, std::int64_t divisor) {
  const DType dtype = signature.outputs[0].dtype;
  const auto of = with_padding ? onednn::Pooling::Of::kMean : onednn::Pooling::Of::kMeanInside;
  if (divisor == 0 && signature.inputs[0].dtype == dtype) {
    if (auto program = library_program(shape, of, dtype, backward))
      return program_kernel(signature, *std::move(program));
  }
  return by_element(signature, [&]<class T>(T) -> Made {
    return kernel_of(
        [shape, by = Divisors<T>{shape, with_padding, divisor}](const Pointers& memory) {
          each_plane<T, backward>(shape, memory, [&](std::int64_t, auto* source, auto* target) {
            if constexpr (backward) {
              mean_plane_backward(shape, target, source, by.rows.data(), by.columns.data(),
                                  memory.scratch_at<T>(0));
            } else {
              mean_plane(shape, source, target, by.rows.data(), by.columns.data());
            }
          });
        },
        backward ? static_cast<std::size_t>(shape.width.target) * sizeof(T) : 0);
  });
}

/// Source → maxima (, their places). `global_places`: ONNX numbers indices through the whole tensor, not per
/// plane.
Made make_max_of(const Signature& signature, const Shape& shape, bool global_places) {
  return by_element(signature, [&]<class T>(T) -> Made {
    return kernel_of(
        [shape, global_places](const Pointers& memory) {
          each_plane<T, false>(shape, memory, [&](std::int64_t p, const T* source, T* target) {
            auto* const indices = memory.outputs.size() > 1
                                      ? memory.output<std::int64_t>(1) + p * shape.target_plane()
                                      : nullptr;
            max_plane(shape, source, target, indices, memory.scratch_at<std::int32_t>(0));
            if (indices == nullptr || !global_places) return;
            for (std::int64_t i = 0; i < shape.target_plane(); ++i) indices[i] += p * shape.source_plane();
          });
        },
        static_cast<std::size_t>(shape.width.target) * sizeof(std::int32_t));
  });
}

Made make_max(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1, 1}, 2));
  if (signature.outputs[1].dtype != DType::kI64) return unsupported(signature, signature.outputs[1].dtype);
  Attributes attributes{signature};
  const auto shape = aten_shape(signature, attributes, signature.inputs[0], signature.outputs[0]);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  return make_max_of(signature, *shape, false);
}

Made make_max_backward(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {3, 3}));
  if (signature.inputs[2].dtype != DType::kI64) return unsupported(signature, signature.inputs[2].dtype);
  EMPLACE_TRY_ASSIGN(const auto shape, planes_of(signature, signature.outputs[0], signature.inputs[0], 2));
  if (signature.inputs[2].shape != signature.inputs[0].shape) {
    return unsupported(signature, "indices and gradient differ in shape");
  }
  return by_element(signature, [&]<class T>(T) -> Made {
    return kernel_of([shape](const Pointers& memory) {
      each_plane<T, true>(shape, memory, [&](std::int64_t p, T* source, const T* target) {
        max_plane_backward(shape, target, memory.input<std::int64_t>(2) + p * shape.target_plane(), source);
      });
    });
  });
}

template <bool backward>
Made make_mean(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {backward + 1u, backward + 1u}));
  Attributes attributes{signature};
  const Operand &first = signature.inputs[0], &out = signature.outputs[0];
  const auto shape = aten_shape(signature, attributes, backward ? out : first, backward ? first : out);
  // The graph formats write this argument of the gradient only if it is true.
  const bool with_padding = attributes.flag("count_include_pad", !backward);
  const std::int64_t divisor = attributes.integer("divisor_override", 0);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  return make_mean_of<backward>(signature, *shape, with_padding, divisor);
}

template <bool backward>
Made make_even_of(const Signature& signature, const Shape& shape) {
  return by_element(signature, [&]<class T>(T) -> Made {
    return kernel_of([shape](const Pointers& memory) {
      each_plane<T, backward>(shape, memory, [&](std::int64_t, auto* source, auto* target) {
        if constexpr (backward) {
          even_plane_backward(shape, target, source);
        } else {
          even_plane(shape, source, target);
        }
      });
    });
  });
}

template <bool backward>
Made make_even(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {backward + 1u, backward + 1u}));
  const Operand &first = signature.inputs[0], &out = signature.outputs[0];
  EMPLACE_TRY_ASSIGN(const auto shape,
                     planes_of(signature, backward ? out : first, backward ? first : out, 2));
  return make_even_of<backward>(signature, shape);
}

Made make_onnx_max(const Signature& signature) {
  const bool places = signature.outputs.size() == 2 && signature.outputs[1].dtype == DType::kI64;
  EMPLACE_TRY(expect(signature, {1, 1}, places ? 2 : 1));
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
  return make_max_of(signature, *shape, true);
}

Made make_onnx_mean(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1, 1}));
  Attributes attributes{signature};
  const auto shape = onnx_shape(signature, attributes);
  const bool with_padding = attributes.flag("count_include_pad", false);
  if (attributes.fault()) return *attributes.fault();
  if (!shape.ok()) return shape.error();
  if (shape->height.dilation != 1 || shape->width.dilation != 1) {
    return unsupported(signature, "means with dilations are not supported");
  }
  return make_mean_of<false>(signature, *shape, with_padding, 0);
}

/// All spatial dimensions are merged into one row.
Made make_global_mean(const Signature& signature) {
  EMPLACE_TRY(expect(signature, {1, 1}));
  const Operand& source = signature.inputs[0];
  if (source.shape.size() < 3) return unsupported(signature, "expected images [N, C, …]");
  const std::int64_t planes = source.shape[0] * source.shape[1];
  if (source.elements() == 0 || signature.outputs[0].elements() != planes) {
    return unsupported(signature, "expected one output value per plane");
  }
  Shape shape{.planes = planes};
  shape.height = {.source = 1, .target = 1};
  shape.width = {.source = source.elements() / planes, .target = 1};
  return make_even_of<false>(signature, shape);
}

constexpr KernelEntry kPoolingKernels[] = {
    {"aten::max_pool2d_with_indices", packed_first<make_max>},
    {"aten::max_pool2d_with_indices_backward", packed_first<make_max_backward>},
    {"aten::avg_pool2d", packed_first<make_mean<false>>},
    {"aten::avg_pool2d_backward", packed_first<make_mean<true>>},
    {"aten::_adaptive_avg_pool2d", packed_first<make_even<false>>},
    {"aten::_adaptive_avg_pool2d_backward", packed_first<make_even<true>>},
    {"MaxPool", packed_first<make_onnx_max>},
    {"AveragePool", packed_first<make_onnx_mean>},
    {"GlobalAveragePool", packed_first<make_global_mean>},
};

}  // namespace

std::span<const KernelEntry> pooling_kernels() { return kPoolingKernels; }

}  // namespace emplace::cpu
