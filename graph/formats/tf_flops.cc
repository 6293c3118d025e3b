#include <tf_graphdef.pb.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/capped.h"
#include "graph/formats/tf_ops.h"
#include "graph/formats/tf_shape_rules.h"

namespace emplace::tf {
namespace {

using capped::elements;
using capped::plus;
using capped::times;

bool flag(const NodeDef& node, std::string_view name) {
  const AttrValue* value = find(node, name);
  return value != nullptr && value->b();
}

std::int64_t window(const NodeDef& node) {
  std::int64_t area = 1;
  if (const AttrValue* size = find(node, "ksize"))
    for (const std::int64_t side : size->list().i()) area = times(area, std::max<std::int64_t>(side, 0));
  return area;
}

/// Operations per element of the first output.
const std::unordered_map<std::string_view, std::int64_t>& per_output() {
  static const std::unordered_map<std::string_view, std::int64_t> table{{"Add", 1},
                                                                        {"AddV2", 1},
                                                                        {"Sub", 1},
                                                                        {"Mul", 1},
                                                                        {"RealDiv", 1},
                                                                        {"Div", 1},
                                                                        {"DivNoNan", 2},
                                                                        {"Neg", 1},
                                                                        {"Abs", 1},
                                                                        {"Sign", 1},
                                                                        {"Square", 1},
                                                                        {"SquaredDifference", 2},
                                                                        {"Maximum", 1},
                                                                        {"Minimum", 1},
                                                                        {"Relu", 1},
                                                                        {"Relu6", 2},
                                                                        {"LeakyRelu", 1},
                                                                        {"ReluGrad", 1},
                                                                        {"Relu6Grad", 2},
                                                                        {"BiasAdd", 1},
                                                                        {"BiasAddV1", 1},
                                                                        {"Floor", 1},
                                                                        {"Ceil", 1},
                                                                        {"Round", 1},
                                                                        {"Exp", 4},
                                                                        {"Log", 4},
                                                                        {"Log1p", 4},
                                                                        {"Sqrt", 2},
                                                                        {"Rsqrt", 2},
                                                                        {"Reciprocal", 1},
                                                                        {"Inv", 1},
                                                                        {"Pow", 4},
                                                                        {"Sin", 4},
                                                                        {"Cos", 4},
                                                                        {"Erf", 8},
                                                                        {"Sigmoid", 4},
                                                                        {"Tanh", 5},
                                                                        {"SigmoidGrad", 3},
                                                                        {"TanhGrad", 3},
                                                                        {"SqrtGrad", 2},
                                                                        {"RsqrtGrad", 3},
                                                                        {"Elu", 4},
                                                                        {"EluGrad", 3},
                                                                        {"Selu", 4},
                                                                        {"SeluGrad", 3},
                                                                        {"Softplus", 5},
                                                                        {"SoftplusGrad", 5},
                                                                        {"Softsign", 2},
                                                                        {"SoftsignGrad", 3},
                                                                        {"Softmax", 5},
                                                                        {"LogSoftmax", 5},
                                                                        {"RandomUniform", 3},
                                                                        {"TruncatedNormal", 3},
                                                                        {"RandomStandardNormal", 3},
                                                                        {"Cumsum", 1},
                                                                        {"Cumprod", 1},
                                                                        {"MulNoNan", 1},
                                                                        {"TruncateDiv", 1},
                                                                        {"FloorDiv", 1},
                                                                        {"FloorMod", 1},
                                                                        {"Mod", 1},
                                                                        {"Xlogy", 5},
                                                                        {"Xdivy", 2},
                                                                        {"Xlog1py", 5},
                                                                        {"Atan2", 8},
                                                                        {"Tan", 5},
                                                                        {"Sinh", 5},
                                                                        {"Cosh", 5},
                                                                        {"Asin", 8},
                                                                        {"Acos", 8},
                                                                        {"Atan", 8},
                                                                        {"Expm1", 4},
                                                                        {"Erfc", 8},
                                                                        {"Erfinv", 8},
                                                                        {"Lgamma", 8},
                                                                        {"Rint", 1},
                                                                        {"ClipByValue", 2},
                                                                        {"LeakyReluGrad", 1},
                                                                        {"InvGrad", 3},
                                                                        {"ReciprocalGrad", 3},
                                                                        {"ResizeBilinear", 7},
                                                                        {"StatelessRandomUniform", 3},
                                                                        {"StatelessRandomUniformV2", 3},
                                                                        {"StatelessRandomNormal", 3},
                                                                        {"StatelessRandomNormalV2", 3},
                                                                        {"StatelessTruncatedNormal", 3},
                                                                        {"StatelessTruncatedNormalV2", 3}};
  return table;
}

/// Per element of the first input; the optimisers' is the variable.
const std::unordered_map<std::string_view, std::int64_t>& per_input() {
  static const std::unordered_map<std::string_view, std::int64_t> table{
      {"Sum", 1},
      {"Mean", 1},
      {"Prod", 1},
      {"Max", 1},
      {"Min", 1},
      {"BiasAddGrad", 1},
      {"L2Loss", 2},
      {"FusedBatchNorm", 8},
      {"FusedBatchNormV2", 8},
      {"FusedBatchNormV3", 8},
      {"FusedBatchNormGrad", 16},
      {"FusedBatchNormGradV2", 16},
      {"FusedBatchNormGradV3", 16},
      {"SoftmaxCrossEntropyWithLogits", 8},
      {"SparseSoftmaxCrossEntropyWithLogits", 8},
      {"ApplyGradientDescent", 2},
      {"ResourceApplyGradientDescent", 2},
      {"ApplyMomentum", 4},
      {"ResourceApplyMomentum", 4},
      {"ResourceApplyKerasMomentum", 4},
      {"ApplyAdagrad", 5},
      {"ResourceApplyAdagrad", 5},
      {"ApplyRMSProp", 10},
      {"ResourceApplyRMSProp", 10},
      {"ApplyCenteredRMSProp", 14},
      {"ResourceApplyCenteredRMSProp", 14},
      {"ApplyAdam", 12},
      {"ResourceApplyAdam", 12},
      {"ResizeBilinearGrad", 7},
      {"UnsortedSegmentSum", 1},
      {"SegmentSum", 1},
      {"AssignAdd", 1},
      {"AssignSub", 1},
      {"AssignAddVariableOp", 1},
      {"AssignSubVariableOp", 1}};
  return table;
}

/// Of ops that only move, choose or steer.
bool moves_only(std::string_view type) {
  static const std::unordered_set<std::string_view> kTypes{"Pack",
                                                           "Unpack",
                                                           "Concat",
                                                           "ConcatV2",
                                                           "ConcatOffset",
                                                           "Split",
                                                           "SplitV",
                                                           "Slice",
                                                           "StridedSlice",
                                                           "StridedSliceGrad",
                                                           "Gather",
                                                           "GatherV2",
                                                           "GatherNd",
                                                           "ResourceGather",
                                                           "ResourceGatherNd",
                                                           "ScatterNd",
                                                           "ScatterUpdate",
                                                           "ResourceScatterUpdate",
                                                           "TensorScatterUpdate",
                                                           "Transpose",
                                                           "Tile",
                                                           "Fill",
                                                           "ZerosLike",
                                                           "OnesLike",
                                                           "Pad",
                                                           "PadV2",
                                                           "MirrorPad",
                                                           "MirrorPadGrad",
                                                           "Reverse",
                                                           "ReverseV2",
                                                           "ReverseSequence",
                                                           "Roll",
                                                           "Select",
                                                           "SelectV2",
                                                           "Where",
                                                           "OneHot",
                                                           "Range",
                                                           "LinSpace",
                                                           "BroadcastTo",
                                                           "Cast",
                                                           "Assign",
                                                           "AssignVariableOp",
                                                           "Snapshot",
                                                           "CheckNumerics",
                                                           "DynamicStitch",
                                                           "ParallelDynamicStitch",
                                                           "DynamicPartition",
                                                           "MatrixBandPart",
                                                           "MatrixDiagV3",
                                                           "MatrixDiagPartV3",
                                                           "Diag",
                                                           "DiagPart",
                                                           "MatrixSetDiagV3",
                                                           "SpaceToDepth",
                                                           "DepthToSpace",
                                                           "SpaceToBatchND",
                                                           "BatchToSpaceND",
                                                           "ExtractImagePatches",
                                                           "TopK",
                                                           "TopKV2",
                                                           "ArgMax",
                                                           "ArgMin",
                                                           "Unique",
                                                           "UniqueV2",
                                                           "UniqueWithCounts",
                                                           "InvertPermutation",
                                                           "Print",
                                                           "PrintV2",
                                                           "Assert",
                                                           "FakeParam",
                                                           "TemporaryVariable",
                                                           "DestroyTemporaryVariable",
                                                           "FakeQuantWithMinMaxVars",
                                                           "FakeQuantWithMinMaxArgs",
                                                           "ResizeNearestNeighbor",
                                                           "ResizeNearestNeighborGrad",
                                                           "MaxPoolGradGrad",
                                                           "NonMaxSuppressionV3",
                                                           "DecodeJpeg",
                                                           "_Arg",
                                                           "_Retval",
                                                           "_Send",
                                                           "_Recv",
                                                           "_HostSend",
                                                           "_HostRecv",
                                                           "DeepCopy",
                                                           "Copy",
                                                           "CopyHost",
                                                           "ShuffleDataset"};
  if (kTypes.contains(type)) return true;
  for (const std::string_view prefix :
       {"TensorList",      "EmptyTensorList", "TensorArray", "Stack",   "Queue",   "Iterator",
        "OneShotIterator", "Lookup",          "Save",        "Restore", "Read",    "Parse",
        "String",          "Decode",          "Encode",      "Print",   "Barrier", "Stage",
        "Unstage",         "Collective",      "Nccl",        "Sparse",  "Ragged"})
    if (type.starts_with(prefix))
      return !type.starts_with("SparseTensorDense") && !type.starts_with("SparseSegment");
  return type.ends_with("Dataset") || type.ends_with("DatasetV2") || type.ends_with("Summary") ||
         type.ends_with("SummaryV2");
}

}  // namespace

bool work_is_known(std::string_view type) {
  if (per_output().contains(type) || per_input().contains(type) || is_optimizer(type) || moves_only(type))
    return true;
  for (const std::string_view prefix :
       {"MatMul", "BatchMatMul", "SparseMatMul", "Einsum", "Conv2D", "Conv3D", "DepthwiseConv2dNative",
        "LSTMBlockCell", "GRUBlockCell", "AddN", "AccumulateNV2", "MaxPool", "AvgPool", "LRN", "ScatterAdd",
        "ScatterSub", "ResourceScatter", "TensorScatter"})
    if (type.starts_with(prefix)) return true;
  return false;
}

std::int64_t flops(const NodeDef& node, std::span<const Shape> inputs, std::span<const Shape> outputs,
                   bool floating) {
  const std::string_view type = node.op();
  static const Shape kNone;
  const auto input = [&](std::size_t k) -> const Shape& { return k < inputs.size() ? inputs[k] : kNone; };
  const std::int64_t n = outputs.empty() ? 0 : elements(outputs[0]);
  const auto read = [&](std::size_t k) { return k < inputs.size() ? elements(inputs[k]) : 0; };
  /// Of a filter [space…, in, out]: multiplications for one element of the convolution's result.
  const auto per_result = [](const Shape& filter) {
    return filter.size() < 3 ? 0 : elements(std::span{filter}.first(filter.size() - 1));
  };
  if (type == "MatMul" || type == "SparseMatMul") {
    if (input(0).size() != 2) return 0;
    return times(2, times(n, input(0)[flag(node, "transpose_a") ? 0 : 1]));
  }
  if (type.starts_with("BatchMatMul")) {
    const Shape& a = input(0);
    if (a.size() < 2) return 0;
    return times(2, times(n, flag(node, "adj_x") ? a[a.size() - 2] : a.back()));
  }
  if (type == "Einsum") {
    const AttrValue* equation = find(node, "equation");
    const auto sizes = equation == nullptr ? std::nullopt : einsum(equation->s(), inputs);
    if (!sizes) return 0;
    // One input is summed, two are multiplied and summed.
    return inputs.size() < 2 ? (sizes->all > n ? sizes->all : 0) : times(2, sizes->all);
  }
  if (type == "Conv2D" || type == "Conv3D") return times(2, times(n, per_result(input(1))));
  if (type.starts_with("Conv2DBackpropInput") || type.starts_with("Conv3DBackpropInput"))
    return times(2, times(read(2), per_result(input(1))));
  if (type.starts_with("Conv2DBackpropFilter") || type.starts_with("Conv3DBackpropFilter"))
    return outputs.empty() ? 0 : times(2, times(read(2), per_result(outputs[0])));
  if (type.starts_with("DepthwiseConv2dNative")) {  // Filters are [height, width, in, multiplier].
    const bool of_filter = type.ends_with("BackpropFilter");
    const Shape& filter = of_filter && !outputs.empty() ? outputs[0] : input(1);
    if (filter.size() != 4) return 0;
    return times(2, times(type == "DepthwiseConv2dNative" ? n : read(2), times(filter[0], filter[1])));
  }
  if (type == "LSTMBlockCell" || type == "GRUBlockCell") {  // x, state…, weights of all gates at once.
    const std::size_t weights = type == "LSTMBlockCell" ? 3 : 2;
    if (input(0).size() != 2) return 0;
    std::int64_t products = read(weights);
    if (type == "GRUBlockCell") products = plus(products, read(weights + 1));
    return plus(times(2, times(input(0)[0], products)), times(34, n));
  }
  if (type == "LSTMBlockCellGrad" || type == "GRUBlockCellGrad") return times(40, n);
  if (is_optimizer(type) && per_input().find(type) == per_input().end()) return times(8, read(0));
  if (!floating) return 0;
  if (const auto it = per_output().find(type); it != per_output().end()) return times(n, it->second);
  if (const auto it = per_input().find(type); it != per_input().end()) return times(read(0), it->second);
  if (type.starts_with("ScatterAdd") || type.starts_with("ScatterSub") ||
      type.starts_with("ResourceScatterAdd") || type.starts_with("ResourceScatterSub") ||
      type.starts_with("TensorScatterAdd"))
    return read(2);
  if (type == "AddN" || type == "AccumulateNV2")
    return times(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(inputs.size()) - 1));
  if (type == "MaxPool" || type == "AvgPool") return times(n, window(node));
  if (type == "MaxPoolGrad") return times(read(2), window(node));
  if (type == "AvgPoolGrad") return times(read(1), window(node));
  if (type == "LRN" || type == "LRNGrad") return times(n, 10);
  return 0;
}

}  // namespace emplace::tf
