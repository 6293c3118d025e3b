#include "executor/cpu/bound_graph.h"

#include <fmt/core.h>

#include <utility>

#include "base/text/words.h"
#include "graph/tensor_layout.h"

namespace emplace::cpu {
namespace {

void append(std::string& key, const Operand& operand) {
  key += '|';
  key += dtype_name(operand.dtype);
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    key += fmt::format(" {}:{}", operand.shape[d], operand.strides[d]);
  }
}

std::string key_of(const Signature& signature) {
  std::string key = signature.type + '\n' + signature.attrs_json;
  for (const Operand& input : signature.inputs) append(key, input);
  key += '>';
  for (const Operand& output : signature.outputs) append(key, output);
  return key;
}

Operand operand_of(DType dtype, const StridedLayout& layout) { return {dtype, layout.shape, layout.strides}; }

}  // namespace

Result<BoundGraph> BoundGraph::make(const LoweredGraph& lowered, bool allow_synthetic) {
  BoundGraph bound;
  bound.kernels_.resize(lowered.num_ops());
  for (const OpId op : lowered.kernels()) EMPLACE_TRY(bound.bind(lowered, op, allow_synthetic));
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    if (lowered.base(buffer) == buffer) continue;
    Operand unused;
    auto input = bound.bind_input(lowered, lowered.tensor(buffer), unused);
    if (!input) continue;  // Whoever reads it is stood in for, and copies need no right numbers.
    bound.parts_.emplace(b, *std::move(input));
  }
  return bound;
}

const BoundInput* BoundGraph::part(BufferId buffer) const {
  const auto at = parts_.find(static_cast<std::uint32_t>(index(buffer)));
  return at == parts_.end() ? nullptr : &at->second;
}

const StridedCopy* BoundGraph::copy_of(const Operand& operand) {
  std::string key;
  append(key, operand);
  std::unique_ptr<StridedCopy>& copy = copies_[key];
  if (copy == nullptr) copy = std::make_unique<StridedCopy>(operand);
  return copy.get();
}

Result<BoundInput> BoundGraph::bind_input(const LoweredGraph& lowered, TensorId tensor, Operand& operand) {
  const OpGraph& graph = lowered.graph();
  const DType dtype = graph.dtype(tensor);
  const std::int64_t size = element_bytes(dtype);
  BoundInput input;
  input.buffer = lowered.buffer(tensor);
  const TensorId named = lowered.tensor(input.buffer);
  const TensorId base = lowered.tensor(lowered.base(input.buffer));
  if (named != base) {
    EMPLACE_TRY_ASSIGN(const auto part, layout_in(graph, named, base));
    if (part.steps.size() != 1)
      return Error{Errc::kUnsupported, "op '" + std::string{graph.name(graph.producer(named))} +
                                           "': a part of a reshaped view is not read on the CPU"};
    const Operand whole = operand_of(dtype, part.steps[0]);
    input.part = copy_of(whole);
    input.part_offset = part.steps[0].offset * size;
    input.part_is_packed = whole.is_packed();
  }
  EMPLACE_TRY_ASSIGN(const auto layout, layout_in(graph, tensor, named));
  for (std::size_t i = 0; i + 1 < layout.steps.size(); ++i) {
    input.reorders.push_back(copy_of(operand_of(dtype, layout.steps[i])));
    input.reorder_offsets.push_back(layout.steps[i].offset * size);
  }
  input.offset = layout.steps.back().offset * size;
  operand = operand_of(dtype, layout.steps.back());
  return input;
}

Result<Unit> BoundGraph::bind(const LoweredGraph& lowered, OpId op, bool allow_synthetic) {
  const OpGraph& graph = lowered.graph();
  BoundKernel& bound = kernels_[index(op)];
  const auto stand_in = [&](const Error& why) -> Result<Unit> {
    if (!allow_synthetic)
      return Error{Errc::kUnsupported, "op '" + printable(graph.name(op), 80) + "': " + why.context +
                                           "; allow synthetic ops, or use the simulator"};
    bound = {};
    synthetic_types_.emplace(graph.type_name(op));
    return Unit{};
  };
  Signature signature{std::string{graph.type_name(op)}, std::string{graph.attrs_json(op)}, {}, {}};
  for (const TensorId tensor : graph.inputs(op)) {
    Operand operand;
    auto input = bind_input(lowered, tensor, operand);
    if (!input) return stand_in(input.error());
    if (input->part != nullptr && !input->part_is_packed)
      bound.scratch_bytes += aligned(static_cast<std::int64_t>(input->part->bytes()));
    for (const StridedCopy* reorder : input->reorders)
      bound.scratch_bytes += aligned(static_cast<std::int64_t>(reorder->bytes()));
    bound.inputs.push_back(*std::move(input));
    signature.inputs.push_back(std::move(operand));
  }
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
    const TensorId tensor = graph.output(op, k);
    const auto shape = graph.shape(tensor);
    signature.outputs.push_back(operand_of(graph.dtype(tensor), packed_layout({shape.begin(), shape.end()})));
  }
  const auto [at, is_new] = made_.try_emplace(key_of(signature));
  if (is_new) {
    auto kernel = make_kernel(signature);
    if (!kernel) {
      EMPLACE_TRY(stand_in(kernel.error()));
      return Unit{};
    }
    at->second = *std::move(kernel);
  }
  if (at->second == nullptr) return stand_in(Error{Errc::kUnsupported, "no kernel"});
  bound.kernel = at->second.get();
  bound.scratch_bytes += aligned(static_cast<std::int64_t>(bound.kernel->scratch_bytes()));
  return Unit{};
}

}  // namespace emplace::cpu
