#include <tf_graphdef.pb.h>

#include <algorithm>

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

MaybeShape bias_gradient(const Op& op) {
  const Shape& x = op.inputs[0];
  if (x.size() < 2) return std::nullopt;
  return Shape{op.text("data_format") == "NCHW" ? x[1] : x.back()};
}

/// Gradient of an image resize, [batch, height, width, channels]: the original height and width are an input.
MaybeShape resize_gradient(const Op& op) {
  if (op.inputs[0].size() != 4 || !op.values[1] || op.values[1]->size() != 2) return std::nullopt;
  return Shape{op.inputs[0][0], (*op.values[1])[0], (*op.values[1])[1], op.inputs[0][3]};
}

MaybeShape unpad(const Op& op) {
  Shape out = op.inputs[0];
  if (!op.values[1] || op.values[1]->size() != 2 * out.size()) return std::nullopt;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] -= (*op.values[1])[2 * k] + (*op.values[1])[2 * k + 1];
  return out;
}

/// Sums rows by segment; input 2 is the number of segments.
MaybeShape unsorted_segments(const Op& op) {
  if (!op.values[2] || op.values[2]->size() != 1 || op.inputs[0].size() < op.inputs[1].size())
    return std::nullopt;
  Shape out{op.values[2]->front()};
  out.insert(out.end(), op.inputs[0].begin() + static_cast<std::ptrdiff_t>(op.inputs[1].size()),
             op.inputs[0].end());
  return out;
}

/// The number of rows follows from the largest index in the first half of the inputs.
MaybeShape stitch(const Op& op) {
  const std::size_t half = op.inputs.size() / 2;
  if (half == 0 || op.inputs.size() != 2 * half) return std::nullopt;
  std::int64_t rows = 0;
  for (std::size_t k = 0; k < half; ++k) {
    if (!op.values[k]) return std::nullopt;
    for (const std::int64_t at : *op.values[k]) rows = std::max(rows, at + 1);
  }
  Shape out{rows};
  if (op.inputs[half].size() < op.inputs[0].size()) return std::nullopt;
  out.insert(out.end(), op.inputs[half].begin() + static_cast<std::ptrdiff_t>(op.inputs[0].size()),
             op.inputs[half].end());
  return out;
}

constexpr NamedRule kGradientRules[]{
    {"ReluGrad", 2, as_input<0>},
    {"Relu6Grad", 2, as_input<0>},
    {"LeakyReluGrad", 2, as_input<0>},
    {"EluGrad", 2, as_input<0>},
    {"SeluGrad", 2, as_input<0>},
    {"SigmoidGrad", 2, as_input<0>},
    {"TanhGrad", 2, as_input<0>},
    {"SqrtGrad", 2, as_input<0>},
    {"RsqrtGrad", 2, as_input<0>},
    {"InvGrad", 2, as_input<0>},
    {"ReciprocalGrad", 2, as_input<0>},
    {"SoftplusGrad", 2, as_input<0>},
    {"SoftsignGrad", 2, as_input<0>},
    {"BiasAddGrad", 1, bias_gradient},
    {"MaxPoolGrad", 3, as_input<0>},
    {"MaxPoolGradV2", 3, as_input<0>},
    {"MaxPoolGradGrad", 3, as_input<1>},
    {"MaxPool3DGrad", 3, as_input<0>},
    {"AvgPoolGrad", 2, contents_of<0>},
    {"AvgPool3DGrad", 2, contents_of<0>},
    {"LRNGrad", 3, as_input<0>},
    {"Conv2DBackpropInput", 3, contents_of<0>},
    {"Conv3DBackpropInputV2", 3, contents_of<0>},
    {"Conv2DBackpropFilter", 3, contents_of<1>},
    {"Conv3DBackpropFilterV2", 3, contents_of<1>},
    {"DepthwiseConv2dNativeBackpropInput", 3, contents_of<0>},
    {"DepthwiseConv2dNativeBackpropFilter", 3, contents_of<1>},
    {"ResizeBilinearGrad", 2, as_input<1>},
    {"ResizeBicubicGrad", 2, as_input<1>},
    {"ResizeNearestNeighborGrad", 2, resize_gradient},
    {"MirrorPadGrad", 2, unpad},
    {"StridedSliceGrad", 5, contents_of<0>},
    {"UnsortedSegmentSum", 3, unsorted_segments},
    {"UnsortedSegmentMax", 3, unsorted_segments},
    {"DynamicStitch", 2, stitch},
    {"ParallelDynamicStitch", 2, stitch},
    {"L2Loss", 1, scalar},
    {"ApplyGradientDescent", 1, as_input<0>},
    {"ApplyMomentum", 1, as_input<0>},
    {"ApplyAdagrad", 1, as_input<0>},
    {"ApplyAdagradV2", 1, as_input<0>},
    {"ApplyAdadelta", 1, as_input<0>},
    {"ApplyRMSProp", 1, as_input<0>},
    {"ApplyCenteredRMSProp", 1, as_input<0>},
    {"ApplyAdam", 1, as_input<0>},
    {"ApplyAdaMax", 1, as_input<0>},
    {"ApplyFtrl", 1, as_input<0>},
    {"ApplyFtrlV2", 1, as_input<0>},
    {"SparseApplyAdagrad", 1, as_input<0>},
    {"SparseApplyMomentum", 1, as_input<0>},
    {"SparseApplyRMSProp", 1, as_input<0>},
    {"Assign", 2, as_input<1>},
    {"AssignAdd", 2, as_input<0>},
    {"AssignSub", 2, as_input<0>},
    {"ScatterAdd", 3, as_input<0>},
    {"ScatterSub", 3, as_input<0>},
    {"ScatterUpdate", 3, as_input<0>},
    {"ScatterNd", 3, contents_of<2>},
    {"TensorScatterUpdate", 3, as_input<0>},
    {"TensorScatterAdd", 3, as_input<0>},
};

}  // namespace

std::span<const NamedRule> gradient_rules() { return kGradientRules; }

}  // namespace emplace::tf
