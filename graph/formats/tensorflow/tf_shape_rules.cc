#include "graph/formats/tensorflow/tf_shape_rules.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <utility>

namespace emplace::tf {

std::int64_t Op::whole(std::string_view name, std::int64_t otherwise) const {
  const AttrValue* attr = find(node, name);
  return attr == nullptr ? otherwise : attr->i();
}

bool Op::flag(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  return attr != nullptr && attr->b();
}

std::vector<std::int64_t> Op::list(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  if (attr == nullptr) return {};
  return {attr->list().i().begin(), attr->list().i().end()};
}

std::string_view Op::text(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  return attr == nullptr ? std::string_view{} : std::string_view{attr->s()};
}

std::optional<std::int64_t> Op::number(std::size_t k) const {
  if (k >= values.size() || !values[k] || values[k]->size() != 1) return std::nullopt;
  return values[k]->front();
}

MaybeShape Op::shape(std::string_view name) const {
  const AttrValue* attr = find(node, name);
  if (attr == nullptr || attr->shape().unknown_rank()) return std::nullopt;
  Shape out;
  for (const auto& dim : attr->shape().dim()) {
    if (dim.size() < 0) return std::nullopt;
    out.push_back(dim.size());
  }
  return out;
}

namespace {

MaybeShape broadcast_operands(const Op& op) { return broadcast(op.inputs[0], op.inputs[1]); }

MaybeShape expand_dims(const Op& op) {
  const auto axis = op.number(1);
  return axis ? with_axis(op.inputs[0], *axis, 1) : std::nullopt;
}

MaybeShape pack(const Op& op) {
  for (const Shape& one : op.inputs)
    if (one != op.inputs[0]) return std::nullopt;
  return with_axis(op.inputs[0], op.whole("axis", 0), static_cast<std::int64_t>(op.inputs.size()));
}

/// The last input is the axis.
MaybeShape concat(const Op& op) {
  Shape out = op.inputs[0];
  const auto along = op.number(op.inputs.size() - 1);
  const auto axis = along ? axis_of(*along, out.size()) : std::nullopt;
  if (!axis) return std::nullopt;
  for (Shape next : op.inputs.subspan(1, op.inputs.size() - 2)) {
    if (next.size() != out.size()) return std::nullopt;
    const std::int64_t more = std::exchange(next[*axis], out[*axis]);
    if (next != out || (out[*axis] += more) > kMaxSize) return std::nullopt;
  }
  return out;
}

MaybeShape reduce_axis(const Op& op) {
  return op.number(1) ? without_axes(op.inputs[0], *op.values[1], false) : std::nullopt;
}

MaybeShape one_per_dimension(const Op& op) { return Shape{static_cast<std::int64_t>(op.inputs[0].size())}; }

MaybeShape matmul(const Op& op) {
  Shape a = op.inputs[0], b = op.inputs[1];
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  if (op.flag("transpose_a") || op.flag("adj_x")) std::swap(a.back(), a[a.size() - 2]);
  if (op.flag("transpose_b") || op.flag("adj_y")) std::swap(b.back(), b[b.size() - 2]);
  return matrix_product(std::move(a), std::move(b));
}

/// Whether the channels come first: [batch, channels, depth, height, width], not [batch, height, width,
/// channels].
bool channels_first(const Op& op) { return op.text("data_format").starts_with("NC"); }

/// Shape of windows of two or three sizes over [batch, (depth,) height, width, channels], or by `data_format`
/// with the channels second.
MaybeShape windows(const Op& op, std::span<const std::int64_t> window, std::int64_t channels) {
  const Shape& x = op.inputs[0];
  const std::size_t rank = window.size() + 2, first = channels_first(op) ? 2 : 1;
  const auto strides = op.list("strides");
  auto dilations = op.list("dilations");
  if (x.size() != rank || strides.size() != rank) return std::nullopt;
  if (dilations.size() != rank) dilations.assign(rank, 1);
  Shape out = x;
  out[first == 2 ? 1 : rank - 1] = channels;
  for (std::size_t k = 0; k < window.size(); ++k) {
    const std::size_t axis = first + k;
    const std::int64_t size = window[k], stride = strides[axis], dilation = dilations[axis];
    if (stride < 1 || dilation < 1 || stride > kMaxSize || dilation > 1 << 20 || size < 1 || size > 1 << 20)
      return std::nullopt;
    const std::int64_t reach = (size - 1) * dilation;
    if (op.text("padding") == "SAME") {
      out[axis] = (x[axis] + stride - 1) / stride;
    } else if (op.text("padding") == "VALID" && x[axis] > reach) {
      out[axis] = (x[axis] - reach - 1) / stride + 1;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

MaybeShape convolution(const Op& op) {
  const Shape& filter = op.inputs[1];
  if (filter.size() != (op.node.op() == "Conv3D" ? 5 : 4)) return std::nullopt;
  const std::size_t sizes = filter.size() - 2;
  std::int64_t channels = filter.back();
  if (op.node.op() == "DepthwiseConv2dNative" && __builtin_mul_overflow(filter[2], filter[3], &channels))
    return std::nullopt;
  return windows(op, std::span{filter}.first(sizes), channels);
}

MaybeShape pool(const Op& op) {
  const auto size = op.list("ksize");
  if (size.size() < 4 || size.size() > 5 || op.inputs[0].size() != size.size()) return std::nullopt;
  return windows(op, std::span{size}.subspan(channels_first(op) ? 2 : 1, size.size() - 2),
                 channels_first(op) ? op.inputs[0][1] : op.inputs[0].back());
}

MaybeShape reduce(const Op& op) {
  if (!op.values[1]) return std::nullopt;
  return without_axes(op.inputs[0], *op.values[1], op.flag("keep_dims"));
}

MaybeShape squeeze(const Op& op) {
  const auto axes = op.list("squeeze_dims");
  return without_axes(op.inputs[0], axes.empty() ? axes_of_one(op.inputs[0]) : axes, false);
}

MaybeShape reshape(const Op& op) {
  if (!op.values[1]) return std::nullopt;
  Shape out = *op.values[1];
  std::int64_t all = 1, known = 1;
  for (const std::int64_t dim : op.inputs[0])
    if (__builtin_mul_overflow(all, dim, &all)) return std::nullopt;
  std::int64_t* open = nullptr;
  for (std::int64_t& dim : out) {
    if (dim == -1 && open == nullptr) {
      open = &dim;
    } else if (dim < 0 || __builtin_mul_overflow(known, dim, &known)) {
      return std::nullopt;
    }
  }
  if (open != nullptr && (known == 0 || all % known != 0)) return std::nullopt;
  if (open != nullptr) *open = all / known;
  return open != nullptr || known == all ? MaybeShape{out} : std::nullopt;
}

MaybeShape pad(const Op& op) {
  Shape out = op.inputs[0];
  if (!op.values[1] || op.values[1]->size() != 2 * out.size()) return std::nullopt;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] += (*op.values[1])[2 * k] + (*op.values[1])[2 * k + 1];
  return out;
}

MaybeShape transpose(const Op& op) {
  return op.values[1] ? transposed(op.inputs[0], *op.values[1]) : std::nullopt;
}

MaybeShape gather(const Op& op) {
  const auto axis = op.node.op() == "GatherV2" ? op.number(2) : 0;
  return axis ? gathered(op.inputs[0], *axis, op.inputs[1]) : std::nullopt;
}

/// Images [batch, height, width, channels], and a new height and width.
MaybeShape resize(const Op& op) {
  if (op.inputs[0].size() != 4 || !op.values[1] || op.values[1]->size() != 2) return std::nullopt;
  return Shape{op.inputs[0][0], (*op.values[1])[0], (*op.values[1])[1], op.inputs[0][3]};
}

MaybeShape bias_gradient(const Op& op) {
  const Shape& x = op.inputs[0];
  if (x.size() < 2) return std::nullopt;
  return Shape{op.text("data_format") == "NCHW" ? x[1] : x.back()};
}

MaybeShape unpad(const Op& op) {
  Shape out = op.inputs[0];
  if (!op.values[1] || op.values[1]->size() != 2 * out.size()) return std::nullopt;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] -= (*op.values[1])[2 * k] + (*op.values[1])[2 * k + 1];
  return out;
}

/// Sums rows by segment; input 2 is the number of segments.
MaybeShape unsorted_segments(const Op& op) {
  const auto segments = op.number(2);
  if (!segments || op.inputs[0].size() < op.inputs[1].size()) return std::nullopt;
  Shape out{*segments};
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

constexpr NamedRule kCommonRules[]{
    {"Identity RefIdentity StopGradient PreventGradient CheckNumerics Snapshot Relu Relu6 LeakyRelu Elu "
     "Selu Sigmoid Tanh Exp Log Log1p Neg Abs Sign Square Sqrt Rsqrt Reciprocal Inv Floor Ceil Round Erf "
     "Sin Cos Softplus Softsign Softmax LogSoftmax BiasAdd BiasAddV1 ZerosLike OnesLike Cast LRN "
     "LogicalNot Cumsum AddN ReadVariableOp PlaceholderWithDefault FakeQuantWithMinMaxVars "
     "FakeQuantWithMinMaxArgs ClipByValue EnsureShape Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Expm1 "
     "Erfc Erfinv Ndtri Lgamma Digamma Rint IsNan IsInf IsFinite Conj Reverse ReverseV2 ReverseSequence "
     "Roll Cumprod MatrixBandPart InvertPermutation Bucketize AccumulateNV2 DeepCopy Copy RefEnter RefExit "
     "RefNextIteration Enter Exit NextIteration LoopCond ApplyGradientDescent ApplyMomentum ApplyAdagrad "
     "ApplyAdagradV2 ApplyAdadelta ApplyRMSProp ApplyCenteredRMSProp ApplyAdam ApplyAdaMax ApplyFtrl "
     "ApplyFtrlV2 SparseApplyAdagrad SparseApplyMomentum SparseApplyRMSProp",
     1, as_input<0>},
    {"Add AddV2 Sub Mul RealDiv Div DivNoNan Maximum Minimum Pow SquaredDifference FloorDiv FloorMod Less "
     "LessEqual Greater GreaterEqual Equal NotEqual LogicalAnd LogicalOr TruncateDiv TruncateMod Mod Atan2 "
     "Xlogy Xlog1py Xdivy MulNoNan BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift NextAfter",
     2, broadcast_operands},
    {"MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3", 2, matmul},
    {"Conv2D Conv3D DepthwiseConv2dNative", 2, convolution},
    {"MaxPool AvgPool MaxPool3D AvgPool3D", 1, pool},
    {"Mean Sum Max Min Prod All Any", 2, reduce},
    {"Pad PadV2 MirrorPad", 2, pad},
    {"Gather GatherV2 ResourceGather", 2, gather},
    {"ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeNearestNeighborGrad", 2, resize},
    {"Squeeze", 1, squeeze},
    {"Reshape", 2, reshape},
    {"Transpose", 2, transpose},
    {"Select MaxPoolGradGrad", 3, as_input<1>},
    {"ExpandDims", 2, expand_dims},
    {"Pack", 1, pack},
    {"ConcatV2", 2, concat},
    {"ArgMax ArgMin", 2, reduce_axis},
    {"Fill", 1, contents_of<0>},
    {"Shape", 1, one_per_dimension},
    {"Size Rank L2Loss", 1, scalar},
    {"ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SigmoidGrad TanhGrad SqrtGrad RsqrtGrad InvGrad "
     "ReciprocalGrad SoftplusGrad SoftsignGrad AssignAdd AssignSub",
     2, as_input<0>},
    {"BiasAddGrad", 1, bias_gradient},
    {"MaxPoolGrad MaxPoolGradV2 MaxPool3DGrad LRNGrad ScatterAdd ScatterSub ScatterUpdate "
     "TensorScatterUpdate TensorScatterAdd",
     3, as_input<0>},
    {"AvgPoolGrad AvgPool3DGrad", 2, contents_of<0>},
    {"Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput", 3, contents_of<0>},
    {"Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter", 3, contents_of<1>},
    {"ResizeBilinearGrad ResizeBicubicGrad Assign", 2, as_input<1>},
    {"MirrorPadGrad", 2, unpad},
    {"StridedSliceGrad", 5, contents_of<0>},
    {"UnsortedSegmentSum UnsortedSegmentMax", 3, unsorted_segments},
    {"DynamicStitch ParallelDynamicStitch", 2, stitch},
    {"ScatterNd", 3, contents_of<2>},
};

}  // namespace

std::span<const NamedRule> common_rules() { return kCommonRules; }

}  // namespace emplace::tf
