#include "graph/formats/tensorflow/tf_ops.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <unordered_map>

#include "graph/op_kind.h"

namespace emplace::tf {
bool is_one_of(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

const AttrValue* find(const NodeDef& node, std::string_view name) {
  for (const NodeDef::Attr& attr : node.attr())
    if (attr.key() == name) return &attr.value();
  return nullptr;
}

Role role_of(std::string_view type) {
  const OpKind* kind = find_kind(Vocabulary::kTensorFlow, type);
  switch (kind == nullptr ? StateKind::kNone : kind->state) {
    case StateKind::kParameter:
      return Role::kVariable;
    case StateKind::kConstant:
      return Role::kConstant;
    case StateKind::kInput:
      return Role::kPlaceholder;
    default:
      return Role::kWork;
  }
}

bool is_view(std::string_view type) {
  const OpKind* kind = find_kind(Vocabulary::kTensorFlow, type);
  return kind != nullptr && kind->view;
}

bool is_optimizer(std::string_view type) {
  for (const std::string_view prefix : {"Apply", "SparseApply", "ResourceApply", "ResourceSparseApply"})
    if (type.starts_with(prefix)) return true;
  return false;
}

bool is_update(std::string_view type) {
  return is_optimizer(type) || type.starts_with("Assign") || type.starts_with("ScatterAdd") ||
         type.starts_with("ScatterSub") || type.starts_with("ScatterUpdate") ||
         type.starts_with("ResourceScatter");
}

bool takes_reference(std::string_view type) {
  return is_update(type) ||
         is_one_of(type, {"IsVariableInitialized", "CountUpTo", "RefSwitch", "RefIdentity"});
}

bool uses_variable(std::string_view type) {
  return is_one_of(type, {"ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
                          "VarIsInitializedOp", "VariableShape", "ResourceGather", "ResourceGatherNd",
                          "ResourceStridedSliceAssign", "DestroyResourceOp"}) ||
         (type.starts_with("Resource") && (is_optimizer(type) || type.starts_with("ResourceScatter")));
}

bool is_call(std::string_view type) {
  return is_one_of(type, {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", "For",
                          "PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "RemoteCall",
                          "BatchFunction"});
}

std::optional<DType> dtype_of(int data_type) {
  if (data_type > 100) data_type -= 100;  // Reference types are offset by 100.
  // Complex numbers and text are mapped to a type of the same size.
  static const std::unordered_map<int, DType> kTypes{
      {DT_FLOAT, DType::kF32},       {DT_DOUBLE, DType::kF64},    {DT_COMPLEX64, DType::kF64},
      {DT_HALF, DType::kF16},        {DT_BFLOAT16, DType::kBF16}, {DT_INT64, DType::kI64},
      {DT_UINT64, DType::kI64},      {DT_INT32, DType::kI32},     {DT_UINT32, DType::kI32},
      {DT_QINT32, DType::kI32},      {DT_INT16, DType::kI16},     {DT_UINT16, DType::kI16},
      {DT_QINT16, DType::kI16},      {DT_QUINT16, DType::kI16},   {DT_INT8, DType::kI8},
      {DT_QINT8, DType::kI8},        {DT_UINT8, DType::kU8},      {DT_QUINT8, DType::kU8},
      {DT_STRING, DType::kU8},       {DT_BOOL, DType::kBool},     {DT_FLOAT8_E5M2, DType::kF8},
      {DT_FLOAT8_E4M3FN, DType::kF8}};
  const auto it = kTypes.find(data_type);
  return it == kTypes.end() ? std::nullopt : std::optional{it->second};
}

namespace {

/// Whether the output is a handle, which is no tensor.
bool gives_handle(std::string_view type, std::size_t output) {
  if (type.starts_with("TensorArrayV") || type.starts_with("TensorArrayGradV")) return output == 0;
  return is_one_of(type, {"FIFOQueue", "FIFOQueueV2", "RandomShuffleQueueV2", "PaddingFIFOQueueV2", "StackV2",
                          "HashTableV2", "IteratorV2", "OneShotIterator", "Iterator", "MutableHashTableV2",
                          "BarrierV2", "TFRecordReaderV2"});
}

bool gives_bool(std::string_view type) {
  return is_one_of(type, {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd",
                          "LogicalOr", "LogicalNot", "LoopCond", "IsNan", "IsInf", "IsFinite", "All", "Any",
                          "InTopK", "InTopKV2", "IsVariableInitialized", "VarIsInitializedOp"});
}

/// Ops that give i32 unless an attribute names another type.
bool gives_i32(std::string_view type) {
  return is_one_of(type, {"Rank", "Size", "Shape", "ShapeN", "ConcatOffset", "TensorArraySizeV2",
                          "TensorArraySizeV3", "QueueSizeV2", "VariableShape", "TensorListLength",
                          "BroadcastGradientArgs", "InvertPermutation"});
}

bool gives_text(std::string_view type) {
  return is_one_of(type,
                   {"ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummary", "AudioSummaryV2",
                    "TensorSummary", "TensorSummaryV2", "MergeSummary", "StringJoin", "ShardedFilename"});
}

/// The type by the op's type alone, or by an attribute that a SavedModel omits at its default.
std::optional<DType> fixed_dtype(const NodeDef& node, std::size_t output) {
  const std::string_view type = node.op();
  // Output 1 of a tensor array orders its uses.
  if (type.starts_with("TensorArrayV") || type.starts_with("TensorArrayGradV") ||
      type.starts_with("TensorArrayWriteV") || type.starts_with("TensorArrayScatterV") ||
      type.starts_with("TensorArraySplitV"))
    return DType::kF32;
  if (gives_bool(type)) return DType::kBool;
  if (type == "Where") return DType::kI64;
  if (gives_text(type)) return DType::kU8;
  const bool own_type = is_one_of(type, {"BroadcastGradientArgs", "InvertPermutation", "ConcatOffset"});
  if (gives_i32(type) && find(node, own_type ? "T" : "out_type") == nullptr) return DType::kI32;
  if (type == "Range" && find(node, "Tidx") == nullptr) return DType::kI32;
  if (output == 1 && is_one_of(type, {"Merge", "RefMerge", "TopK", "TopKV2"})) return DType::kI32;
  return std::nullopt;
}

/// The DataType that an attribute names.
std::optional<int> named_type(const NodeDef& node, std::size_t output) {
  for (const char* list : {"component_types", "output_types", "dtypes", "Tout", "out_types"}) {
    const AttrValue* types = find(node, list);
    if (types != nullptr && output < static_cast<std::size_t>(types->list().type_size()))
      return types->list().type(static_cast<int>(output));
  }
  // The attribute with the output type has different names; try the most specific first.
  for (const char* one :
       {"DstT", "output_dtype", "output_type", "out_type", "dtype", "Tparams", "T", "Tidx", "type"}) {
    const AttrValue* found = find(node, one);
    if (found != nullptr && found->value_case() == AttrValue::kType) return found->type();
    if (found != nullptr && output < static_cast<std::size_t>(found->list().type_size()))
      return found->list().type(static_cast<int>(output));
  }
  return std::nullopt;
}

}  // namespace

std::optional<DType> output_dtype(const NodeDef& node, std::size_t output) {
  const std::string_view type = node.op();
  if (gives_handle(type, output)) return std::nullopt;
  if (const auto fixed = fixed_dtype(node, output)) return fixed;
  if (const auto named = named_type(node, output)) return dtype_of(*named);
  if (type == "ArgMax" || type == "ArgMin") return DType::kI64;
  if (gives_i32(type)) return DType::kI32;
  return DType::kF32;
}

}  // namespace emplace::tf
