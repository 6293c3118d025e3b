#include "executor/kernel/binding.h"

#include <fmt/core.h>

#include <utility>

namespace emplace {
namespace {

Cut cut_of(DType dtype, const StridedLayout& layout) {
  return {{dtype, layout.shape, layout.strides}, layout.offset * element_bytes(dtype)};
}

}  // namespace

Result<InputRoute> route_to(const LoweredGraph& lowered, TensorId tensor) {
  const OpGraph& graph = lowered.graph();
  const DType dtype = graph.dtype(tensor);
  InputRoute route;
  route.buffer = lowered.buffer(tensor);
  const TensorId named = lowered.tensor(route.buffer);
  const TensorId base = lowered.tensor(lowered.base(route.buffer));
  if (named != base) {
    EMPLACE_TRY_ASSIGN(const auto part, layout_in(graph, named, base));
    if (part.steps.size() != 1)
      return Error{Errc::kUnsupported,
                   quoted_op(graph, graph.producer(named)) + ": no kernel reads a part of a reshaped view"};
    route.part = cut_of(dtype, part.steps[0]);
  }
  EMPLACE_TRY_ASSIGN(const auto layout, layout_in(graph, tensor, named));
  for (std::size_t i = 0; i + 1 < layout.steps.size(); ++i)
    route.reorders.push_back(cut_of(dtype, layout.steps[i]));
  route.input = cut_of(dtype, layout.steps.back());
  return route;
}

Signature signature_without_inputs(const OpGraph& graph, OpId op) {
  Signature signature{std::string{graph.type_name(op)}, std::string{graph.attrs_json(op)}, {}, {}};
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
    const TensorId tensor = graph.output(op, k);
    const auto shape = graph.shape(tensor);
    signature.outputs.push_back(packed(graph.dtype(tensor), {shape.begin(), shape.end()}));
  }
  return signature;
}

std::string key_of(const Operand& operand) {
  std::string key{dtype_name(operand.dtype)};
  for (std::size_t d = 0; d < operand.shape.size(); ++d)
    key += fmt::format(" {}:{}", operand.shape[d], operand.strides[d]);
  return key;
}

std::string key_of(const Signature& signature) {
  std::string key = signature.type + '\n' + signature.attrs_json;
  for (const auto* operands : {&signature.inputs, &signature.outputs}) {
    key += '>';
    for (const Operand& operand : *operands) key.append(1, '|').append(key_of(operand));
  }
  return key;
}

Error no_kernel(const OpGraph& graph, OpId op, const Error& why) {
  return {Errc::kUnsupported,
          quoted_op(graph, op) + ": " + why.context + "; allow synthetic ops, or use the simulator"};
}

}  // namespace emplace
