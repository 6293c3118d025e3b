#include "placement/costs/convolution_shape.h"

#include <algorithm>
#include <cmath>

namespace emplace::kernel_shapes {
namespace {

/// A convolution by the product that makes its result.
struct ConvolutionSizes {
  double result = 0;    ///< Elements of the result.
  double channels = 0;  ///< Channels of the result, or the channels that weights make.
  double flops = 0;
  double bias = 0;  ///< Further operations.
  double bytes = 0;
};

/// Whether the kernel is one pixel, so that libraries run it as a product. XLA's layouts are not known here.
bool is_pointwise(const OpSizes& op) {
  const auto weights = op.shape(op.role().second);
  if (weights.size() < 3 || op.role().vocabulary == Vocabulary::kHlo) return false;
  const bool first = op.role().vocabulary == Vocabulary::kTensorFlow;  // [height, width, in, out]
  const auto area = first ? weights.first(weights.size() - 2) : weights.subspan(2);
  return std::all_of(area.begin(), area.end(), [](std::int64_t size) { return size == 1; });
}

/// Adds one product per group: m n k = flops / 2 / groups.
void add_convolution(const OpSizes& op, const ConvolutionSizes& sizes, bool depthwise, Kernels& kernels) {
  if (sizes.result < 1 || sizes.channels < 1 || sizes.flops <= 0) return;
  KernelShape kernel{.kind = KernelKind::kConvolution};
  const double groups = depthwise ? 1 : static_cast<double>(op.groups());
  if (depthwise) {
    kernel.kind = KernelKind::kOther;
    kernel.at = {std::max(1.0, sizes.bytes), 1, 1, 1};
  } else {
    if (is_pointwise(op)) kernel.kind = KernelKind::kProduct;
    kernel.at = {sizes.result / sizes.channels, sizes.channels / groups, sizes.flops / (2 * sizes.result)};
  }
  kernel.count = static_cast<std::uint32_t>(groups);
  kernel.launches = 1 / groups;
  kernel.flops = (sizes.flops + sizes.bias) / groups;
  kernel.bytes = sizes.bytes / groups;
  kernels.add(kernel);
}

/// The size of `dims` that is the channels of the result by the work: result · weights / channels is the
/// number of products, but for those with padding, which XLA does not count. 0 if none fits.
std::int64_t channels_by_work(std::span<const std::int64_t> dims, double result, double weights,
                              double flops) {
  std::int64_t best = 0;
  double least = std::log(8.0);  // Padding leaves more than an eighth.
  for (const std::int64_t dim : dims) {
    if (dim <= 0) continue;
    const double ratio = std::abs(std::log(flops / (2 * result * weights / static_cast<double>(dim))));
    const bool whole = static_cast<std::int64_t>(weights) % dim == 0;
    if (whole && ratio < least) least = ratio, best = dim;
  }
  return best;
}

/// The axis of the channels of [batch, channels, space…], of which the batch may be missing.
std::int64_t channels_of(std::span<const std::int64_t> shape, std::size_t weight_rank, bool channels_last) {
  if (shape.empty()) return 0;
  if (channels_last) return shape.back();
  return shape.size() >= weight_rank ? shape[std::min<std::size_t>(1, shape.size() - 1)] : shape[0];
}

bool is_depthwise(const OpSizes& op, std::size_t weight) {
  switch (op.formula()) {
    case Formula::kDepthwise:
    case Formula::kDepthwiseInputGradient:
    case Formula::kDepthwiseFilterGradient:
      return true;
    default:
      return op.groups() > 1 && op.dim(weight, 1) == 1;
  }
}

void add_forward(const OpSizes& op, Kernels& kernels) {
  const std::size_t w = op.role().second;
  const auto made = op.made_shape();
  const bool counts_bias =
      op.formula() == Formula::kConvolution || op.formula() == Formula::kTransposedConvolution;
  const bool biased =
      counts_bias && op.num_inputs() > 2 &&
      (op.role().vocabulary == Vocabulary::kAten || op.role().vocabulary == Vocabulary::kOnnx);
  ConvolutionSizes sizes;
  sizes.result = static_cast<double>(op.made());
  sizes.bias = biased ? sizes.result : 0;
  sizes.flops = static_cast<double>(op.flops()) - sizes.bias;
  sizes.bytes = op.traffic();
  std::int64_t channels = 0;
  switch (op.role().vocabulary) {
    case Vocabulary::kTensorFlow:
      channels = op.formula() == Formula::kDepthwise ? op.dim(w, 2) * op.dim(w, 3) : op.last(w);
      break;
    case Vocabulary::kHlo:
      channels = channels_by_work(made, sizes.result, static_cast<double>(op.elements(w)), sizes.flops);
      break;
    default:
      if (op.formula() == Formula::kTimeConvolution) {
        channels = op.last(w);
      } else {
        channels = channels_of(made, op.shape(w).size(), op.type().find("Nhwc") != std::string_view::npos);
      }
  }
  sizes.channels = static_cast<double>(channels);
  add_convolution(op, sizes, is_depthwise(op, w), kernels);
}

/// TensorFlow and XLA have an op for each gradient.
void add_input_gradient(const OpSizes& op, Kernels& kernels) {
  const std::size_t w = op.role().second;
  ConvolutionSizes sizes{.result = static_cast<double>(op.made()),
                         .flops = static_cast<double>(op.flops()),
                         .bytes = op.traffic()};
  const auto filter = op.shape(w);
  const std::int64_t channels =
      op.role().vocabulary == Vocabulary::kTensorFlow
          ? (filter.size() < 2 ? 0 : filter[filter.size() - 2])
          : channels_by_work(op.made_shape(), sizes.result, static_cast<double>(op.elements(w)), sizes.flops);
  sizes.channels = static_cast<double>(channels);
  add_convolution(op, sizes, is_depthwise(op, w), kernels);
}

void add_filter_gradient(const OpSizes& op, Kernels& kernels) {
  const auto made = op.made_shape();
  const std::int64_t largest = made.empty() ? 0 : *std::max_element(made.begin(), made.end());
  const bool tensorflow = op.role().vocabulary == Vocabulary::kTensorFlow;
  add_convolution(op,
                  {.result = static_cast<double>(op.made()),
                   .channels = static_cast<double>(tensorflow && !made.empty() ? made.back() : largest),
                   .flops = static_cast<double>(op.flops()),
                   .bytes = op.traffic()},
                  is_depthwise(op, op.role().second), kernels);
}

/// PyTorch's op makes the gradients that are wanted; its work states how many, its first output which.
///   gradient [batch, out…], input [batch, in…], weights [out, in / groups…], or [in, out / groups…] if
///   transposed, or [kernel, in, out] of a convolution over time
void add_gradients(const OpSizes& op, Kernels& kernels) {
  const std::size_t x = 1, w = op.role().second;
  const bool in_time = op.formula() == Formula::kTimeConvolutionGradients;
  const std::int64_t out = in_time ? op.last(w) : op.dim(w, 0);
  if (out <= 0) return;
  const double weights = static_cast<double>(op.elements(w)), input = static_cast<double>(op.elements(x));
  const double base = static_cast<double>(op.elements(!in_time && op.flag("transposed") ? x : 0));
  const double each = 2 * base * weights / static_cast<double>(out);
  if (each <= 0) return;
  const int count = std::min(2, static_cast<int>(static_cast<double>(op.flops()) / each));
  if (count == 0) return;
  const bool of_input = count == 2 || op.made() != op.elements(w) || op.made() == op.elements(x);
  const bool of_weights = count == 2 || !of_input;
  const double gradient_bytes = op.bytes_read(0);
  const bool depthwise = !in_time && is_depthwise(op, w);
  const double bias = static_cast<double>(op.flops()) - count * each;
  if (of_input) {
    const std::int64_t channels = in_time ? op.last(x) : channels_of(op.shape(x), op.shape(w).size(), false);
    add_convolution(op,
                    {.result = input,
                     .channels = static_cast<double>(channels),
                     .flops = each,
                     .bias = of_weights ? 0 : bias,
                     .bytes = gradient_bytes + op.bytes_read(w) + op.bytes_read(x)},
                    depthwise, kernels);
  }
  if (of_weights)
    add_convolution(op,
                    {.result = weights,
                     .channels = static_cast<double>(out),
                     .flops = each,
                     .bias = bias,
                     .bytes = gradient_bytes + op.bytes_read(x) + op.bytes_read(w)},
                    depthwise, kernels);
}

}  // namespace

bool add_convolutions(const OpSizes& op, Kernels& kernels) {
  switch (op.formula()) {
    case Formula::kConvolution:
    case Formula::kBareConvolution:
    case Formula::kQuantisedConvolution:
    case Formula::kTransposedConvolution:
    case Formula::kTimeConvolution:
    case Formula::kDepthwise:
      return add_forward(op, kernels), true;
    case Formula::kConvolutionInputGradient:
    case Formula::kDepthwiseInputGradient:
      return add_input_gradient(op, kernels), true;
    case Formula::kConvolutionFilterGradient:
    case Formula::kDepthwiseFilterGradient:
      return add_filter_gradient(op, kernels), true;
    case Formula::kConvolutionGradients:
    case Formula::kTimeConvolutionGradients:
      return add_gradients(op, kernels), true;
    default:
      return false;
  }
}

}  // namespace emplace::kernel_shapes
