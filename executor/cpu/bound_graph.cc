#include "executor/cpu/bound_graph.h"

#include <utility>

#include "executor/kernel/binding.h"

namespace emplace::cpu {

Result<BoundGraph> BoundGraph::make(const LoweredGraph& lowered, bool allow_synthetic) {
  BoundGraph bound;
  bound.kernels_.resize(lowered.num_ops());
  for (const OpId op : lowered.kernels()) EMPLACE_TRY(bound.bind(lowered, op, allow_synthetic));
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    if (lowered.base(buffer) == buffer) continue;
    Operand unused;
    auto input = bound.bind_input(lowered, lowered.tensor(buffer), unused);
    if (!input) continue;  // The op that reads it is synthetic; the values are irrelevant.
    bound.parts_.emplace(b, *std::move(input));
  }
  return bound;
}

const BoundInput* BoundGraph::part(BufferId buffer) const {
  const auto at = parts_.find(static_cast<std::uint32_t>(index(buffer)));
  return at == parts_.end() ? nullptr : &at->second;
}

const StridedCopy* BoundGraph::copy_of(const Operand& operand) {
  std::unique_ptr<StridedCopy>& copy = copies_[key_of(operand)];
  if (copy == nullptr) copy = std::make_unique<StridedCopy>(operand);
  return copy.get();
}

Result<BoundInput> BoundGraph::bind_input(const LoweredGraph& lowered, TensorId tensor, Operand& operand) {
  EMPLACE_TRY_ASSIGN(auto route, route_to(lowered, tensor));
  BoundInput input;
  input.buffer = route.buffer;
  if (route.part) {
    input.part = copy_of(route.part->operand);
    input.part_offset = route.part->offset;
    input.part_is_packed = route.part->operand.is_packed();
  }
  for (const Cut& reorder : route.reorders) {
    input.reorders.push_back(copy_of(reorder.operand));
    input.reorder_offsets.push_back(reorder.offset);
  }
  input.offset = route.input.offset;
  operand = std::move(route.input.operand);
  return input;
}

Result<Unit> BoundGraph::bind(const LoweredGraph& lowered, OpId op, bool allow_synthetic) {
  const OpGraph& graph = lowered.graph();
  BoundKernel& bound = kernels_[index(op)];
  const auto use_synthetic = [&](const Error& why) -> Result<Unit> {
    if (!allow_synthetic) return no_kernel(graph, op, why);
    bound = {};
    synthetic_types_.emplace(graph.type_name(op));
    return Unit{};
  };
  Signature signature = signature_without_inputs(graph, op);
  for (const TensorId tensor : graph.inputs(op)) {
    Operand operand;
    auto input = bind_input(lowered, tensor, operand);
    if (!input) return use_synthetic(input.error());
    if (input->part != nullptr && !input->part_is_packed)
      bound.scratch_bytes += aligned(static_cast<std::int64_t>(input->part->bytes()));
    for (const StridedCopy* reorder : input->reorders)
      bound.scratch_bytes += aligned(static_cast<std::int64_t>(reorder->bytes()));
    bound.inputs.push_back(*std::move(input));
    signature.inputs.push_back(std::move(operand));
  }
  const auto [at, is_new] = made_.try_emplace(key_of(signature));
  if (is_new) {
    auto kernel = make_kernel(signature);
    if (!kernel) {
      EMPLACE_TRY(use_synthetic(kernel.error()));
      return Unit{};
    }
    at->second = *std::move(kernel);
  }
  if (at->second == nullptr) return use_synthetic(Error{Errc::kUnsupported, "no kernel"});
  bound.kernel = at->second.get();
  bound.scratch_bytes += aligned(static_cast<std::int64_t>(bound.kernel->scratch_bytes()));
  return Unit{};
}

}  // namespace emplace::cpu
