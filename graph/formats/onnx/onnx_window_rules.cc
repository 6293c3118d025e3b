#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>
#include <cmath>

#include "graph/formats/onnx/onnx_infer.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::onnx_io {
namespace {

/// The spatial attributes of a window, one entry per axis, with defaults filled in.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;
};

constexpr std::int64_t kLargestWindow = std::int64_t{1} << 20;

/// Returns nothing if a list has the wrong length or a number is out of range.
std::optional<Window> window_of(const Inference& op, std::vector<std::int64_t> kernel) {
  const std::size_t axes = kernel.size();
  Window window{std::move(kernel), op.list("strides"), op.list("dilations"), op.list("pads")};
  if (window.strides.empty()) window.strides.assign(axes, 1);
  if (window.dilations.empty()) window.dilations.assign(axes, 1);
  if (window.pads.empty()) window.pads.assign(2 * axes, 0);
  if (window.strides.size() != axes || window.dilations.size() != axes || window.pads.size() != 2 * axes)
    return std::nullopt;
  const auto in_range = [](std::int64_t n) { return n >= 1 && n <= kLargestWindow; };
  for (const auto* list : {&window.kernel, &window.strides, &window.dilations})
    if (!std::all_of(list->begin(), list->end(), in_range)) return std::nullopt;
  for (const std::int64_t pad : window.pads)
    if (pad < -kLargestWindow || pad > kLargestWindow) return std::nullopt;
  return window;
}

/// Number of window positions along one axis of length `size`; nothing if the window does not fit.
std::optional<std::int64_t> positions(const Inference& op, const Window& w, std::size_t axis,
                                      std::int64_t size) {
  const std::string_view auto_pad = op.text("auto_pad");
  const std::int64_t stride = w.strides[axis], reach = (w.kernel[axis] - 1) * w.dilations[axis] + 1;
  if (auto_pad.starts_with("SAME")) return (size + stride - 1) / stride;
  std::int64_t padded = size;
  if (auto_pad != "VALID") padded += w.pads[axis] + w.pads[axis + w.kernel.size()];
  if (padded < reach) return std::nullopt;
  const bool ceil = op.number("ceil_mode", 0) != 0;
  std::int64_t count = (padded - reach + (ceil ? stride - 1 : 0)) / stride + 1;
  // The last window must start inside the input or its left padding.
  if (ceil && (count - 1) * stride >= size + w.pads[axis]) --count;
  return count;
}

void slide(Inference& op, const Shape& x, const Window& window, Shape out) {
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const auto count = positions(op, window, axis, x[axis + 2]);
    if (!count) return op.reject("its window is larger than its input " + shape_text(x));
    out.push_back(*count);
  }
  op.set(0, std::move(out));
}

/// Convolution with the weights in input `weights`.
template <std::size_t weights>
void convolve(Inference& op, const Shape& x) {
  const Shape* w = op.shape(weights);
  if (w == nullptr) return;
  if (x.size() < 3 || x.size() != w->size())
    return op.reject("its input " + shape_text(x) + " and weights " + shape_text(*w) + " are incompatible");
  const std::int64_t groups = op.number("group", 1);
  if (groups < 1 || (*w)[1] > kLargestDim / groups || x[1] != (*w)[1] * groups)
    return op.reject(fmt::format("its input {} and weights {} are incompatible with {} groups", shape_text(x),
                                 shape_text(*w), groups));
  const auto window = window_of(op, {w->begin() + 2, w->end()});
  if (window) slide(op, x, *window, {x[0], (*w)[0]});
}

/// The com.microsoft convolution of x [batch, spatial…, channels] with weights [out, in / groups, kernel…].
template <std::size_t weights, bool always_last>
void convolve_last(Inference& op, const Shape& x) {
  const Shape* w = op.shape(weights);
  if (!always_last && op.number("channels_last", 0) == 0) return convolve<weights>(op, x);
  if (w == nullptr || x.size() < 3 || x.size() != w->size()) return;
  const auto window = window_of(op, {w->begin() + 2, w->end()});
  Shape first{x[0], x.back()};
  first.insert(first.end(), x.begin() + 1, x.end() - 1);
  if (!window) return;
  slide(op, first, *window, {x[0]});
  if (Value* out = op.output(0); out != nullptr && out->shape && op.rejection().empty())
    out->shape->push_back((*w)[0]);
}

/// A convolution at shifted positions has one result per position of its offsets, input 2.
void deformed(Inference& op, const Shape& x) {
  const Shape *w = op.shape(1), *offsets = op.shape(2);
  if (w == nullptr || offsets == nullptr || w->empty() || offsets->size() < 3 || x.empty()) return;
  Shape out{x[0], (*w)[0]};
  out.insert(out.end(), offsets->begin() + 2, offsets->end());
  op.set(0, std::move(out));
}

void conv_transpose(Inference& op, const Shape& x) {
  const Shape* w = op.shape(1);
  if (w == nullptr || x.size() < 3 || x.size() != w->size()) return;
  const auto window = window_of(op, {w->begin() + 2, w->end()});
  const std::int64_t groups = op.number("group", 1);
  auto extra = op.list("output_padding");
  const auto wanted = op.list("output_shape");
  if (!window || groups < 1 || groups > kLargestWindow || (*w)[1] > kLargestDim / groups) return;
  const std::size_t axes = window->kernel.size();
  extra.resize(axes, 0);
  Shape out{x[0], (*w)[1] * groups};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t stride = window->strides[axis],
                       reach = (window->kernel[axis] - 1) * window->dilations[axis] + 1;
    if (x[axis + 2] > kLargestDim / stride) return;
    std::int64_t size =
        stride * (x[axis + 2] - 1) + extra[axis] + reach - window->pads[axis] - window->pads[axis + axes];
    if (op.text("auto_pad").starts_with("SAME")) size = x[axis + 2] * stride;
    if (wanted.size() == axes) size = wanted[axis];
    if (wanted.size() == axes + 2) size = wanted[axis + 2];
    if (size < 0) return;
    out.push_back(size);
  }
  op.set(0, std::move(out));
}

void pool(Inference& op, const Shape& x) {
  op.set_element(1, Proto::INT64);  // Output 1 of MaxPool: positions of the maxima.
  auto kernel = op.list("kernel_shape");
  if (x.size() < 3 || kernel.size() + 2 != x.size()) return;
  const auto window = window_of(op, std::move(kernel));
  if (!window) return;
  slide(op, x, *window, {x[0], x[1]});
  if (op.output(0)->shape) op.set(1, *op.output(0)->shape);
}

void global_pool(Inference& op, const Shape& x) {
  if (x.size() < 2) return;
  Shape out(x.size(), 1);
  out[0] = x[0], out[1] = x[1];
  op.set(0, std::move(out));
}

/// Sizes come from an input, or factors from an input or an attribute; `axes` may restrict the dimensions.
void resize(Inference& op, const Shape& x) {
  std::vector<std::size_t> axes;
  for (const std::int64_t one : op.list("axes"))
    if (const auto axis = axis_of(one, x.size())) axes.push_back(*axis);
  if (axes.empty())
    for (std::size_t k = 0; k < x.size(); ++k) axes.push_back(k);
  Shape out = x;
  if (const auto* sizes = op.whole(3); sizes != nullptr && !sizes->empty()) {
    if (sizes->size() != axes.size()) return;
    for (std::size_t k = 0; k < axes.size(); ++k) out[axes[k]] = std::max<std::int64_t>(0, (*sizes)[k]);
    return op.set(0, std::move(out));
  }
  std::vector<double> scales;
  if (const auto* listed = op.attribute("scales"))
    scales.assign(listed->floats().begin(), listed->floats().end());
  for (const std::size_t k : {std::size_t{2}, std::size_t{1}})  // Input 1 until opset 10.
    if (scales.empty() && op.input(k) != nullptr && op.input(k)->real) scales = *op.input(k)->real;
  if (scales.size() != axes.size()) return;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const double size = std::floor(static_cast<double>(out[axes[k]]) * scales[k]);
    if (!(size >= 0 && size < static_cast<double>(kLargestDim))) return;
    out[axes[k]] = static_cast<std::int64_t>(size);
  }
  op.set(0, std::move(out));
}

/// Samples images [batch, channels, …] at grid [batch, …, 2].
void grid_sample(Inference& op, const Shape& x) {
  const Shape* grid = op.shape(1);
  if (grid == nullptr || x.size() < 3 || grid->size() != x.size()) return;
  Shape out{x[0], x[1]};
  out.insert(out.end(), grid->begin() + 1, grid->end() - 1);
  op.set(0, std::move(out));
}

void depth_to_space(Inference& op, const Shape& x) {
  const std::int64_t block = op.number("blocksize", 0);
  if (x.size() != 4 || block < 1 || block > kLargestWindow) return;
  if (x[2] > kLargestDim / block || x[3] > kLargestDim / block) return;
  op.set(0, {x[0], x[1] / (block * block), x[2] * block, x[3] * block});
}

void space_to_depth(Inference& op, const Shape& x) {
  const std::int64_t block = op.number("blocksize", 0);
  if (x.size() != 4 || block < 1 || block > kLargestWindow) return;
  if (x[1] > kLargestDim / (block * block)) return;
  op.set(0, {x[0], x[1] * block * block, x[2] / block, x[3] / block});
}

constexpr RuleRow kWindowRules[]{
    {"Conv com.microsoft::FusedConv", 2, convolve<1>},
    {"ConvInteger", 2, convolve<1>, always<Proto::INT32>},
    {"QLinearConv", 8, convolve<3>, as_input<7>},
    {"com.microsoft::QLinearConv", 8, convolve_last<3, false>, as_input<7>},
    {"com.microsoft::NhwcConv com.microsoft::NhwcFusedConv", 2, convolve_last<1, true>},
    {"DeformConv", 3, deformed},
    {"ConvTranspose", 2, conv_transpose},
    {"MaxPool AveragePool LpPool com.microsoft::QLinearAveragePool", 1, pool},
    {"GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft::QLinearGlobalAveragePool", 1, global_pool},
    {"Resize Upsample", 1, resize},
    {"GridSample", 2, grid_sample},
    {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth},
};

}  // namespace

std::span<const RuleRow> window_rules() { return kWindowRules; }

}  // namespace emplace::onnx_io
