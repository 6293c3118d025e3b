// Two-dimensional pooling. Backward passes gather: each input element sums over the windows that cover it,
// so no two threads add to the same element, and results are reproducible.
#include <cmath>

#include "executor/cuda/kernels/divisor.h"
#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

/// [planes, in_h, in_w] ↔ [planes, out_h, out_w].
struct Windows {
  std::int64_t planes = 0;
  int in[2]{}, out[2]{}, kernel[2]{}, stride[2]{}, pad[2]{}, dilation[2]{};
  Divisor by_in[2], by_out[2];
  bool adaptive = false;  ///< True: window o is [floor(o in / out), ceil((o + 1) in / out)).
  bool counts_pad = true;

  /// Start and end of window `o` along dimension d, before clipping to the input.
  EMPLACE_HD int begin(int d, int o) const {
    return adaptive ? static_cast<int>(by_out[d].quotient(std::int64_t{o} * in[d])) : o * stride[d] - pad[d];
  }
  EMPLACE_HD int end(int d, int o) const {
    return adaptive ? static_cast<int>(by_out[d].quotient(std::int64_t{o + 1} * in[d] + out[d] - 1))
                    : begin(d, o) + (kernel[d] - 1) * dilation[d] + 1;
  }
  /// First and last window that may cover input element `i`.
  EMPLACE_HD int first_over(int d, int i) const {
    if (adaptive) return static_cast<int>(by_in[d].quotient(std::int64_t{i} * out[d]));
    const int reach = i + pad[d] - (kernel[d] - 1) * dilation[d];
    return reach <= 0 ? 0 : (reach + stride[d] - 1) / stride[d];
  }
  EMPLACE_HD int last_over(int d, int i) const {
    const int last = adaptive
                         ? static_cast<int>(by_in[d].quotient(std::int64_t{i + 1} * out[d] + in[d] - 1)) - 1
                         : (i + pad[d]) / stride[d];
    return last < out[d] - 1 ? last : out[d] - 1;
  }
  struct Position {
    std::int64_t plane;
    int row, column;
  };
  /// Position of an element in planes of the output's or the input's size.
  EMPLACE_HD static Position position(const Divisor (&by)[2], std::int64_t i) {
    std::int64_t row = 0, column = 0;
    const std::int64_t plane = by[0].divide(by[1].divide(i, column), row);
    return {plane, static_cast<int>(row), static_cast<int>(column)};
  }
  EMPLACE_HD float divisor(int oh, int ow) const {
    const int o[2] = {oh, ow};
    int count = 1;
    for (int d = 0; d < 2; ++d) {
      int from = begin(d, o[d]), to = end(d, o[d]);
      if (counts_pad && !adaptive) {
        to = to < in[d] + pad[d] ? to : in[d] + pad[d];
      } else {
        from = from > 0 ? from : 0, to = to < in[d] ? to : in[d];
      }
      count *= to - from;
    }
    return static_cast<float>(count);
  }
};

struct MaxPool {
  static constexpr const char* kName = "max_pool";
  Windows w;
  bool writes_indices = false;
  const float* in = nullptr;
  float* out = nullptr;
  std::int64_t* where = nullptr;

  void bind(const Pointers& pointers) {
    in = pointers.input<float>(0), out = pointers.output<float>(0);
    if (writes_indices) where = pointers.output<std::int64_t>(1);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const auto [number, oh, ow] = Windows::position(w.by_out, i);
    const float* const plane = in + number * w.in[0] * w.in[1];
    float best = -INFINITY;
    std::int64_t at = -1;
    for (int h = w.begin(0, oh); h < w.end(0, oh); h += w.dilation[0]) {
      for (int x = w.begin(1, ow); x < w.end(1, ow); x += w.dilation[1]) {
        if (h < 0 || h >= w.in[0] || x < 0 || x >= w.in[1]) continue;
        const float value = plane[h * w.in[1] + x];
        // The first of equal elements wins; NaN compares as the largest.
        if (at >= 0 && !(value > best) && value == value) continue;
        best = value, at = h * w.in[1] + x;
      }
    }
    out[i] = best;
    if (writes_indices) where[i] = at;
  }
};

/// Inputs: gradient, x, indices.
struct MaxPoolBackward {
  static constexpr const char* kName = "max_pool_backward";
  Windows w;
  const float* gradient = nullptr;
  const std::int64_t* where = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    gradient = pointers.input<float>(0), where = pointers.input<std::int64_t>(2),
    out = pointers.output<float>(0);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const auto [number, h, x] = Windows::position(w.by_in, i);
    const std::int64_t plane = number * w.out[0] * w.out[1], own = std::int64_t{h} * w.in[1] + x;
    float sum = 0.0f;
    for (int oh = w.first_over(0, h); oh <= w.last_over(0, h); ++oh)
      for (int ow = w.first_over(1, x); ow <= w.last_over(1, x); ++ow) {
        const std::int64_t o = plane + oh * w.out[1] + ow;
        if (where[o] == own) sum += gradient[o];
      }
    out[i] = sum;
  }
};

struct AveragePool {
  static constexpr const char* kName = "avg_pool";
  Windows w;
  const float* in = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) { in = pointers.input<float>(0), out = pointers.output<float>(0); }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const auto [number, oh, ow] = Windows::position(w.by_out, i);
    const float* const plane = in + number * w.in[0] * w.in[1];
    float sum = 0.0f;
    for (int h = w.begin(0, oh); h < w.end(0, oh); ++h)
      for (int x = w.begin(1, ow); x < w.end(1, ow); ++x)
        if (h >= 0 && h < w.in[0] && x >= 0 && x < w.in[1]) sum += plane[h * w.in[1] + x];
    out[i] = sum / w.divisor(oh, ow);
  }
};

struct AveragePoolBackward {
  static constexpr const char* kName = "avg_pool_backward";
  Windows w;
  const float* gradient = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) {
    gradient = pointers.input<float>(0), out = pointers.output<float>(0);
  }
  EMPLACE_HD void operator()(std::int64_t i) const {
    const auto [number, h, x] = Windows::position(w.by_in, i);
    const std::int64_t plane = number * w.out[0] * w.out[1];
    float sum = 0.0f;
    for (int oh = w.first_over(0, h); oh <= w.last_over(0, h); ++oh) {
      if (h < w.begin(0, oh) || h >= w.end(0, oh)) continue;
      for (int ow = w.first_over(1, x); ow <= w.last_over(1, x); ++ow) {
        if (x < w.begin(1, ow) || x >= w.end(1, ow)) continue;
        sum += gradient[plane + oh * w.out[1] + ow] / w.divisor(oh, ow);
      }
    }
    out[i] = sum;
  }
};

/// Windows from the attributes and the two tensors. Errors: kUnsupported.
Result<Windows> windows_of(const Signature& signature, const Operand& in, const Operand& out, bool adaptive,
                           bool onnx, bool counts_pad_absent = false) {
  Attributes attributes{signature};
  const auto kernel = attributes.integers(onnx ? "kernel_shape" : "kernel_size");
  auto stride = attributes.integers(onnx ? "strides" : "stride");
  auto pad = attributes.integers(onnx ? "pads" : "padding"),
       dilation = attributes.integers(onnx ? "dilations" : "dilation");
  const bool counts_pad = attributes.flag("count_include_pad", counts_pad_absent);
  const std::string automatic = attributes.word("auto_pad", "NOTSET");
  if (attributes.fault()) return *attributes.fault();
  const std::size_t rank = in.shape.size();
  if (rank < 3 || rank > 4 || out.shape.size() != rank)
    return unsupported(signature, "expected two spatial dimensions");
  if (!in.is_packed()) return unsupported(signature, "expected a packed input");
  if (automatic != "NOTSET" && automatic != "VALID") return unsupported(signature, "auto_pad " + automatic);
  Windows w{.planes = 1, .adaptive = adaptive, .counts_pad = counts_pad};
  for (std::size_t d = 0; d + 2 < rank; ++d) w.planes *= in.shape[d];
  const auto at = [](const std::vector<std::int64_t>& list, std::size_t d, std::int64_t fallback) {
    return static_cast<int>(list.empty() ? fallback : list.size() == 1 ? list[0] : list[d]);
  };
  for (std::size_t d = 0; d < 2; ++d) {
    w.in[d] = static_cast<int>(in.shape[rank - 2 + d]), w.out[d] = static_cast<int>(out.shape[rank - 2 + d]);
    w.by_in[d] = Divisor{w.in[d]}, w.by_out[d] = Divisor{w.out[d]};
    w.kernel[d] = at(kernel, d, 0), w.stride[d] = at(stride, d, w.kernel[d]), w.pad[d] = at(pad, d, 0);
    if (onnx && stride.empty()) w.stride[d] = 1;
    w.dilation[d] = at(dilation, d, 1);
    if (!adaptive && (w.kernel[d] < 1 || w.stride[d] < 1 || w.dilation[d] < 1))
      return unsupported(signature, "expected positive kernel size, stride and dilation");
    if (!adaptive && (w.out[d] - 1) * w.stride[d] - w.pad[d] >= w.in[d])
      return unsupported(signature, "windows exceed the input");
  }
  return w;
}

std::int64_t inputs_of(const Windows& w) { return w.planes * w.in[0] * w.in[1]; }
std::int64_t outputs_of(const Windows& w) { return w.planes * w.out[0] * w.out[1]; }

template <bool kOnnx>
Made max_pool(const Signature& signature) {
  if (signature.inputs.size() != 1 || signature.inputs[0].dtype != DType::kF32)
    return unsupported(signature, "expected one f32 input");
  EMPLACE_TRY_ASSIGN(const Windows w,
                     windows_of(signature, signature.inputs[0], signature.outputs.at(0), false, kOnnx));
  const bool writes_indices = signature.outputs.size() == 2;
  if (writes_indices && signature.outputs[1].dtype != DType::kI64)
    return unsupported(signature, "expected i64 indices");
  return each(MaxPool{.w = w, .writes_indices = writes_indices}, outputs_of(w));
}

Made max_pool_backward(const Signature& signature) {
  if (signature.inputs.size() != 3 || signature.inputs[2].dtype != DType::kI64 ||
      signature.inputs[0].dtype != DType::kF32)
    return unsupported(signature, "expected gradient, input and i64 indices");
  if (!signature.inputs[0].is_packed() || !signature.inputs[2].is_packed())
    return unsupported(signature, "expected a packed input");
  EMPLACE_TRY_ASSIGN(const Windows w,
                     windows_of(signature, signature.inputs[1], signature.inputs[0], false, false));
  return each(MaxPoolBackward{.w = w}, inputs_of(w));
}

template <bool kAdaptive, bool kOnnx>
Made average_pool(const Signature& signature) {
  EMPLACE_TRY(expect(signature, 1, 1));
  EMPLACE_TRY_ASSIGN(const Windows w, windows_of(signature, signature.inputs[0], signature.outputs[0],
                                                 kAdaptive, kOnnx, !kOnnx));
  if (w.dilation[0] != 1 || w.dilation[1] != 1) return unsupported(signature, "dilation");
  return each(AveragePool{.w = w}, outputs_of(w));
}

template <bool kAdaptive>
Made average_pool_backward(const Signature& signature) {
  EMPLACE_TRY(expect(signature, 2, 1));
  if (!signature.inputs[0].is_packed()) return unsupported(signature, "expected a packed gradient");
  EMPLACE_TRY_ASSIGN(const Windows w,
                     windows_of(signature, signature.outputs[0], signature.inputs[0], kAdaptive, false));
  return each(AveragePoolBackward{.w = w}, inputs_of(w));
}

}  // namespace

std::span<const KernelEntry> pooling_kernels() {
  static constexpr KernelEntry entries[] = {
      {"aten::max_pool2d_with_indices", max_pool<false>},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward},
      {"aten::avg_pool2d", average_pool<false, false>},
      {"aten::avg_pool2d_backward", average_pool_backward<false>},
      {"aten::_adaptive_avg_pool2d", average_pool<true, false>},
      {"aten::_adaptive_avg_pool2d_backward", average_pool_backward<true>},
      {"MaxPool", max_pool<true>},
      {"AveragePool", average_pool<false, true>}};
  return entries;
}

}  // namespace emplace::cuda
