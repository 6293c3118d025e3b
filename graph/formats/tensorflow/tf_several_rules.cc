#include <tf_graphdef.pb.h>

#include <algorithm>

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

constexpr std::int64_t kMaxParts = 64;

/// Splits into equal parts along an axis.
std::optional<Inferred> split(const Op& op) {
  const auto along = op.number(0);
  if (op.inputs.size() < 2 || !along) return std::nullopt;
  const std::int64_t parts = op.whole("num_split", 0);
  Shape part = op.inputs[1];
  const auto axis = axis_of(*along, part.size());
  if (!axis || parts < 1 || parts > kMaxParts || part[*axis] % parts != 0) return std::nullopt;
  part[*axis] /= parts;
  return Inferred{std::vector<Shape>(static_cast<std::size_t>(parts), part)};
}

/// Splits into parts with the sizes in input 1; one of them may be -1, the remainder.
std::optional<Inferred> split_by_sizes(const Op& op) {
  const auto along = op.number(2);
  if (op.inputs.size() < 3 || !op.values[1] || !along) return std::nullopt;
  const auto axis = axis_of(*along, op.inputs[0].size());
  if (!axis || op.values[1]->size() > static_cast<std::size_t>(kMaxParts)) return std::nullopt;
  std::int64_t rest = op.inputs[0][*axis];
  for (const std::int64_t size : *op.values[1]) rest -= size < 0 ? 0 : size;
  Inferred out;
  for (const std::int64_t size : *op.values[1]) {
    out.shapes.push_back(op.inputs[0]);
    out.shapes.back()[*axis] = size < 0 ? rest : size;
  }
  return out;
}

std::optional<Inferred> unpack(const Op& op) {
  if (op.inputs.empty()) return std::nullopt;
  const auto axis = axis_of(op.whole("axis", 0), op.inputs[0].size());
  if (!axis || op.inputs[0][*axis] > kMaxParts) return std::nullopt;
  Shape part = op.inputs[0];
  part.erase(part.begin() + static_cast<std::ptrdiff_t>(*axis));
  return Inferred{std::vector<Shape>(static_cast<std::size_t>(op.inputs[0][*axis]), part)};
}

/// One axis list per operand (summed_axes).
std::optional<Inferred> broadcast_arguments(const Op& op) {
  if (op.inputs.size() < 2 || !op.values[0] || !op.values[1]) return std::nullopt;
  const auto count = [](const Shape& axes) { return Shape{static_cast<std::int64_t>(axes.size())}; };
  return Inferred{
      {count(summed_axes(*op.values[0], *op.values[1])), count(summed_axes(*op.values[1], *op.values[0]))}};
}

std::optional<Inferred> cell(const Op& op, std::size_t state, std::size_t outputs) {
  if (op.inputs.size() <= state) return std::nullopt;
  return Inferred{std::vector<Shape>(outputs, op.inputs[state])};
}

std::optional<Inferred> losses(const Op& op) {
  if (op.inputs.size() < 2 || op.inputs[0].size() != 2) return std::nullopt;
  return Inferred{{Shape{op.inputs[0][0]}, op.inputs[0]}};
}

/// The contents of input `k` as a shape, if every dimension is known.
MaybeShape shape_from(const Op& op, std::size_t k) {
  if (k >= op.values.size() || !op.values[k] || op.inputs[k].size() != 1) return std::nullopt;
  const auto known = [](std::int64_t dim) { return dim >= 0; };
  return std::all_of(op.values[k]->begin(), op.values[k]->end(), known) ? op.values[k] : std::nullopt;
}

Shape behind(const Shape& stacked) { return {stacked.begin() + 1, stacked.end()}; }

Shape stack_of(std::int64_t count, const Shape& element) {
  Shape out{count};
  out.insert(out.end(), element.begin(), element.end());
  return out;
}

MaybeShape reserve(const Op& op) {
  const auto element = shape_from(op, 0);
  const std::int64_t count = op.number(1).value_or(-1);
  return element ? stack_of(count >= 0 ? count : 1, *element) : Shape{};
}
MaybeShape empty_list(const Op& op) {
  const auto element = shape_from(op, 0);
  return element ? stack_of(0, *element) : Shape{};
}
MaybeShape set_item(const Op& op) {
  return stack_of(op.inputs[0].empty() ? 1 : op.inputs[0].front(), op.inputs[2]);
}
MaybeShape push(const Op& op) {
  return stack_of(op.inputs[0].empty() ? 1 : op.inputs[0].front() + 1, op.inputs[1]);
}
MaybeShape item(const Op& op) {
  if (!op.inputs[0].empty()) return behind(op.inputs[0]);
  return op.inputs.size() > 2 ? shape_from(op, 2) : std::nullopt;
}
MaybeShape stack(const Op& op) {
  const std::int64_t count = op.whole("num_elements", -1);
  if (!op.inputs[0].empty()) return stack_of(count < 0 ? op.inputs[0].front() : count, behind(op.inputs[0]));
  const auto element = shape_from(op, 1);
  return element && count >= 0 ? MaybeShape{stack_of(count, *element)} : std::nullopt;
}
/// Inputs handle, index, flow; the result is one tensor of the array.
MaybeShape read_array(const Op& op) {
  return op.inputs[0].empty() ? std::nullopt : MaybeShape{behind(op.inputs[0])};
}
/// Inputs handle, indices, flow; the result is tensors of the array, concatenated.
MaybeShape gather_array(const Op& op) {
  if (op.inputs[0].empty() || op.inputs[1].size() != 1) return std::nullopt;
  return stack_of(op.inputs[1].front(), behind(op.inputs[0]));
}
MaybeShape element_shape(const Op& op) {
  if (op.inputs[0].empty()) return std::nullopt;
  return Shape{static_cast<std::int64_t>(op.inputs[0].size()) - 1};
}

constexpr NamedRule kListRules[]{
    {"TensorListFromTensor TensorListResize", 1, as_input<0>},
    {"TensorListReserve", 2, reserve},
    {"EmptyTensorList", 1, empty_list},
    {"TensorListSetItem", 3, set_item},
    {"TensorListPushBack", 2, push},
    {"TensorListGetItem", 2, item},
    {"TensorListStack", 2, stack},
    {"TensorListLength TensorArrayWriteV3 TensorArrayScatterV3 TensorArraySizeV3", 1, scalar},
    {"TensorListElementShape", 1, element_shape},
    {"TensorArrayReadV3 StackPopV2", 1, read_array},
    {"TensorArrayGatherV3", 2, gather_array},
    {"StackV2", 0, scalar},
    {"StackPushV2", 2, as_input<1>},
    {"FakeParam", 0, [](const Op& op) { return op.shape("shape"); }},
};

}  // namespace

std::span<const NamedRule> list_rules() { return kListRules; }

std::optional<Inferred> several_outputs(const Op& op) {
  const std::string_view type = op.node.op();
  const auto& in = op.inputs;
  const auto at_least = [&](std::size_t n) { return in.size() >= n; };
  if (type.starts_with("FusedBatchNormGrad") && at_least(3))
    return Inferred{{in[1], in[2], in[2], Shape{0}, Shape{0}}};
  if (type.starts_with("FusedBatchNorm") && at_least(2)) {
    Inferred out{{in[0], in[1], in[1], in[1], in[1]}};
    if (type == "FusedBatchNormV3")
      out.shapes.push_back(Shape{0});  // Workspace of cuDNN, of unspecified size.
    return out;
  }
  if ((type == "Switch" || type == "RefSwitch") && at_least(1)) return Inferred{{in[0], in[0]}};
  if (type == "_SwitchN" && at_least(1)) {
    const std::int64_t n = op.whole("num_outs", 0);
    if (n < 1 || n > kMaxParts) return std::nullopt;
    return Inferred{std::vector<Shape>(static_cast<std::size_t>(n), in[0])};
  }
  if ((type == "Merge" || type == "RefMerge") && at_least(1)) return Inferred{{in[0], Shape{}}};
  if (type == "IdentityN") return Inferred{{in.begin(), in.end()}};
  if (type == "Split") return split(op);
  if (type == "SplitV") return split_by_sizes(op);
  if (type == "Unpack") return unpack(op);
  if (type == "ShapeN") {
    Inferred out;
    for (const Shape& one : in) out.shapes.push_back({static_cast<std::int64_t>(one.size())});
    return out;
  }
  if (type == "ConcatOffset" && at_least(2)) return Inferred{{in.begin() + 1, in.end()}};
  if (type == "BroadcastGradientArgs") return broadcast_arguments(op);
  if (type == "SparseSoftmaxCrossEntropyWithLogits" || type == "SoftmaxCrossEntropyWithLogits")
    return losses(op);
  if ((type == "TopKV2" || type == "TopK") && at_least(1) && !in[0].empty()) {
    const auto k = type == "TopK" ? op.whole("k", 0) : op.number(1);
    if (!k) return std::nullopt;
    Shape best = in[0];
    best.back() = *k;
    return Inferred{{best, best}};
  }
  // Upper bound, all distinct: the actual number is known only at run time.
  if ((type == "Unique" || type == "UniqueV2") && at_least(1)) return Inferred{{in[0], in[0]}};
  if ((type == "UniqueWithCounts" || type == "UniqueWithCountsV2") && at_least(1))
    return Inferred{{in[0], in[0], in[0]}};
  if (type == "LSTMBlockCell") return cell(op, 1, 7);
  if (type == "GRUBlockCell") return cell(op, 1, 4);
  if ((type == "BlockLSTM" || type == "BlockLSTMV2") && at_least(3) && in[1].size() == 3 && in[2].size() == 2)
    return Inferred{std::vector<Shape>(7, Shape{in[1][0], in[1][1], in[2][1]})};
  if (type == "TensorListPopBack" && at_least(2)) {
    if (!in[0].empty()) return Inferred{{in[0], Shape(in[0].begin() + 1, in[0].end())}};
    if (op.values[1]) return Inferred{{Shape{}, *op.values[1]}};
    return std::nullopt;
  }
  if ((type == "TensorArrayGradV3" || type == "TensorArrayGradV2") && at_least(1))
    return Inferred{{in[0], Shape{}}};
  if (type == "TensorArrayV3" && at_least(1)) {
    const auto element = op.shape("element_shape");
    if (!element) return Inferred{{Shape{}, Shape{}}};
    Shape whole{op.number(0).value_or(1)};
    whole.insert(whole.end(), element->begin(), element->end());
    return Inferred{{whole, Shape{}}};
  }
  if (type == "StatelessRandomGetKeyCounter") return Inferred{{Shape{1}, Shape{2}}};
  return std::nullopt;
}

}  // namespace emplace::tf
