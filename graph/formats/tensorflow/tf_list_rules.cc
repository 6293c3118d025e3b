#include <tf_graphdef.pb.h>

#include <algorithm>

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

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

/// The number in input `k`, or `otherwise`.
std::int64_t number_or(const Op& op, std::size_t k, std::int64_t otherwise) {
  return op.values[k] && op.values[k]->size() == 1 && op.values[k]->front() >= 0 ? op.values[k]->front()
                                                                                 : otherwise;
}

MaybeShape same(const Op& op) { return op.inputs[0]; }
MaybeShape reserve(const Op& op) {
  const auto element = shape_from(op, 0);
  return element ? stack_of(number_or(op, 1, 1), *element) : Shape{};
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
    {"TensorListFromTensor", 1, same},
    {"TensorListReserve", 2, reserve},
    {"EmptyTensorList", 1, empty_list},
    {"TensorListSetItem", 3, set_item},
    {"TensorListPushBack", 2, push},
    {"TensorListGetItem", 2, item},
    {"TensorListStack", 2, stack},
    {"TensorListResize", 1, same},
    {"TensorListLength", 1, scalar},
    {"TensorListElementShape", 1, element_shape},
    {"TensorArrayReadV3", 1, read_array},
    {"TensorArrayGatherV3", 2, gather_array},
    {"TensorArrayWriteV3", 1, scalar},
    {"TensorArrayScatterV3", 1, scalar},
    {"TensorArraySizeV3", 1, scalar},
    {"StackV2", 0, [](const Op&) -> MaybeShape { return Shape{}; }},
    {"StackPushV2", 2, [](const Op& op) -> MaybeShape { return op.inputs[1]; }},
    {"StackPopV2", 1, read_array},
    {"FakeParam", 0,
     [](const Op& op) -> MaybeShape {
       const AttrValue* shape = find(op.node, "shape");
       if (shape == nullptr || shape->shape().unknown_rank()) return std::nullopt;
       Shape out;
       for (const auto& dim : shape->shape().dim()) {
         if (dim.size() < 0) return std::nullopt;
         out.push_back(dim.size());
       }
       return out;
     }},
};

}  // namespace

std::span<const NamedRule> list_rules() { return kListRules; }

}  // namespace emplace::tf
