#include "executor/cuda/bound_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text/words.h"
#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/session.h"
#include "graph/tensor_layout.h"

namespace emplace::cuda {
namespace {

std::string key_of(const Signature& signature) {
  std::string key = signature.type + '\n' + signature.attrs_json;
  for (const auto* operands : {&signature.inputs, &signature.outputs}) {
    key += '>';
    for (const Operand& operand : *operands) {
      key += '|';
      key += dtype_name(operand.dtype);
      for (std::size_t d = 0; d < operand.shape.size(); ++d)
        key += fmt::format(" {}:{}", operand.shape[d], operand.strides[d]);
    }
  }
  return key;
}

Operand operand_of(DType dtype, const StridedLayout& layout) { return {dtype, layout.shape, layout.strides}; }

}  // namespace

struct BoundGraph::Binder {
  BoundGraph& bound;
  const LoweredGraph& lowered;
  const Lane& lane;
  DeviceId device;
  const CostTable& costs;
  bool allow_synthetic;

  /// The kernel of a signature, prepared. Errors: kUnsupported; of Session.
  Result<const Kernel*> kernel_of(const Signature& signature) {
    const auto [at, is_new] = bound.made_.try_emplace(key_of(signature));
    if (is_new) {
      EMPLACE_TRY_ASSIGN(auto kernel, cuda::make_kernel(signature));
      EMPLACE_TRY(kernel->prepare(lane));
      at->second = std::move(kernel);
    }
    if (at->second == nullptr) return Error{Errc::kUnsupported, "no kernel"};
    return static_cast<const Kernel*>(at->second.get());
  }

  /// A copy of what lies as `layout` says; null within if it lies in order.
  Result<Packing> packing_of(DType dtype, const StridedLayout& layout) {
    const std::int64_t size = element_bytes(dtype);
    Packing packing{.offset = layout.offset * size, .bytes = layout.elements() * size};
    const Operand from = operand_of(dtype, layout);
    if (packed(from)) return packing;
    EMPLACE_TRY_ASSIGN(
        packing.copy,
        kernel_of({"emplace::pack", "{}", {from}, {operand_of(dtype, packed_layout(layout.shape))}}));
    return packing;
  }

  Result<BoundInput> bind_input(TensorId tensor, Operand& operand);
  Result<Unit> bind(OpId op);
  Result<Unit> stand_in(OpId op, const Signature& signature, const Error& why);
};

Result<BoundInput> BoundGraph::Binder::bind_input(TensorId tensor, Operand& operand) {
  const OpGraph& graph = lowered.graph();
  const DType dtype = graph.dtype(tensor);
  BoundInput input;
  input.buffer = lowered.buffer(tensor);
  const TensorId named = lowered.tensor(input.buffer), base = lowered.tensor(lowered.base(input.buffer));
  if (named != base) {
    EMPLACE_TRY_ASSIGN(const auto part, layout_in(graph, named, base));
    if (part.steps.size() != 1)
      return Error{Errc::kUnsupported, "op '" + std::string{graph.name(graph.producer(named))} +
                                           "': a part of a reshaped view is not read on a GPU"};
    EMPLACE_TRY_ASSIGN(auto packing, packing_of(dtype, part.steps[0]));
    input.is_part = true;
    input.part = packing;
  }
  EMPLACE_TRY_ASSIGN(const auto layout, layout_in(graph, tensor, named));
  for (std::size_t i = 0; i + 1 < layout.steps.size(); ++i) {
    EMPLACE_TRY_ASSIGN(auto packing, packing_of(dtype, layout.steps[i]));
    input.reorders.push_back(packing);
  }
  input.offset = layout.steps.back().offset * element_bytes(dtype);
  operand = operand_of(dtype, layout.steps.back());
  return input;
}

Result<Unit> BoundGraph::Binder::stand_in(OpId op, const Signature& signature, const Error& why) {
  if (why.code != Errc::kUnsupported) return why;
  if (!allow_synthetic)
    return Error{Errc::kUnsupported, "op '" + printable(lowered.graph().name(op), 80) + "': " + why.context +
                                         "; allow synthetic ops, or use the simulator"};
  bound.synthetic_.push_back(make_synthetic(signature, static_cast<double>(costs.ns(device, op)) * 1e-3));
  bound.kernels_[index(op)] = {.kernel = bound.synthetic_.back().get(), .synthetic = true};
  bound.synthetic_types_.emplace(lowered.graph().type_name(op));
  return Unit{};
}

Result<Unit> BoundGraph::Binder::bind(OpId op) {
  const OpGraph& graph = lowered.graph();
  Signature signature{std::string{graph.type_name(op)}, std::string{graph.attrs_json(op)}, {}, {}};
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
    const TensorId tensor = graph.output(op, k);
    const auto shape = graph.shape(tensor);
    signature.outputs.push_back(operand_of(graph.dtype(tensor), packed_layout({shape.begin(), shape.end()})));
  }
  BoundKernel& to = bound.kernels_[index(op)];
  for (const TensorId tensor : graph.inputs(op)) {
    Operand operand;
    auto input = bind_input(tensor, operand);
    if (!input) return stand_in(op, signature, input.error());
    if (input->part.copy != nullptr) to.scratch_bytes += aligned(input->part.bytes);
    for (const Packing& reorder : input->reorders) to.scratch_bytes += aligned(reorder.bytes);
    to.inputs.push_back(*std::move(input));
    signature.inputs.push_back(std::move(operand));
  }
  auto kernel = kernel_of(signature);
  if (!kernel) return stand_in(op, signature, kernel.error());
  to.kernel = *kernel;
  to.scratch_bytes += aligned(static_cast<std::int64_t>(to.kernel->scratch_bytes()));
  return Unit{};
}

Result<BoundGraph> BoundGraph::make(const LoweredGraph& lowered, const Lane& lane, DeviceId device,
                                    const CostTable& costs, bool allow_synthetic) {
  BoundGraph bound;
  bound.kernels_.resize(lowered.num_ops());
  Binder binder{bound, lowered, lane, device, costs, allow_synthetic};
  for (const OpId op : lowered.kernels()) EMPLACE_TRY(binder.bind(op));
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    if (lowered.base(BufferId{b}) == BufferId{b}) continue;
    Operand unused;
    auto input = binder.bind_input(lowered.tensor(BufferId{b}), unused);
    if (!input) {  // Whoever reads it is stood in for, and copies need no right numbers.
      if (input.error().code != Errc::kUnsupported) return input.error();
      continue;
    }
    bound.parts_.emplace(b, input->part);
  }
  return bound;
}

const Packing* BoundGraph::part(BufferId buffer) const {
  const auto at = parts_.find(static_cast<std::uint32_t>(index(buffer)));
  return at == parts_.end() ? nullptr : &at->second;
}

}  // namespace emplace::cuda
