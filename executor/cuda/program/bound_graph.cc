#include "executor/cuda/program/bound_graph.h"

#include <utility>

#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/libraries/session.h"
#include "executor/kernel/binding.h"

namespace emplace::cuda {

struct BoundGraph::Binder {
  BoundGraph& bound;
  const LoweredGraph& lowered;
  const Lane& lane;
  DeviceId device;
  const CostTable& costs;
  bool allow_synthetic;
  std::atomic<std::uint64_t>* progress;
  const MakeHostKernel& make_host;  // Empty on a GPU.

  /// Creates and prepares a kernel. What a library refuses while its plan is made is unsupported, unless the
  /// device failed or is full.
  Result<std::unique_ptr<Kernel>> make_prepared(const Signature& signature) {
    if (progress != nullptr) ++*progress;
    // Packing has one implementation, whose twin runs on the host.
    if (make_host && signature.type != "emplace::pack") return make_host(signature);
    EMPLACE_TRY_ASSIGN(auto kernel, cuda::make_kernel(signature));
    if (make_host) return kernel;
    if (auto ready = kernel->prepare(lane); !ready)
      return Error{ready.error().code == Errc::kRunFailed ? Errc::kUnsupported : ready.error().code,
                   ready.error().context};
    return kernel;
  }

  /// The prepared kernel of a signature. Errors: kUnsupported; those of Session.
  Result<const Kernel*> kernel_of(const Signature& signature) {
    std::string key = key_of(signature);
    auto at = bound.made_.find(key);
    if (at == bound.made_.end()) at = bound.made_.emplace(std::move(key), make_prepared(signature)).first;
    if (!at->second) return at->second.error();
    return static_cast<const Kernel*>(at->second->get());
  }

  /// A packed copy of `cut`; its `copy` is null if `cut` is packed already.
  Result<Packing> packing_of(const Cut& cut) {
    Packing packing{.offset = cut.offset, .bytes = cut.bytes()};
    if (packed(cut.operand)) return packing;
    const Operand to = operand_of(cut.operand.dtype, packed_layout(cut.operand.shape));
    EMPLACE_TRY_ASSIGN(packing.copy, kernel_of({"emplace::pack", "{}", {cut.operand}, {to}}));
    return packing;
  }

  Result<BoundInput> bind_input(TensorId tensor, Operand& operand);
  /// Packs an input that may not lie on 16 bytes, which libraries are promised. Errors: those of Session.
  Result<Unit> align(BoundInput& input, Operand& operand);
  Result<Unit> bind(OpId op);
  Result<Unit> use_synthetic(OpId op, const Signature& signature, const Error& why);
};

Result<BoundInput> BoundGraph::Binder::bind_input(TensorId tensor, Operand& operand) {
  EMPLACE_TRY_ASSIGN(auto route, route_to(lowered, tensor));
  BoundInput input;
  input.buffer = route.buffer;
  input.is_part = route.part.has_value();
  if (route.part) {
    EMPLACE_TRY_ASSIGN(input.part, packing_of(*route.part));
  }
  for (const Cut& reorder : route.reorders) {
    EMPLACE_TRY_ASSIGN(auto packing, packing_of(reorder));
    input.reorders.push_back(packing);
  }
  input.offset = route.input.offset;
  operand = std::move(route.input.operand);
  return input;
}

Result<Unit> BoundGraph::Binder::align(BoundInput& input, Operand& operand) {
  constexpr std::int64_t kPromise = 16;
  // Buffers, scratch and packed copies lie on 256 bytes. What follows the last of these moves the address.
  std::int64_t at = input.is_part && input.part.copy == nullptr ? input.part.offset % kPromise : 0;
  for (const Packing& reorder : input.reorders)
    at = reorder.copy != nullptr ? 0 : (at + reorder.offset) % kPromise;
  // A part that was copied from another device lies on 256 bytes, at home it may not: both must be aligned.
  if ((at + input.offset) % kPromise == 0 && input.offset % kPromise == 0) return Unit{};
  const Operand to = operand_of(operand.dtype, packed_layout(operand.shape));
  Packing packing{.offset = input.offset, .bytes = elements(to) * element_bytes(to.dtype)};
  EMPLACE_TRY_ASSIGN(packing.copy, kernel_of({"emplace::pack", "{}", {operand}, {to}}));
  input.reorders.push_back(packing);
  input.offset = 0;
  operand = to;
  return Unit{};
}

Result<Unit> BoundGraph::Binder::use_synthetic(OpId op, const Signature& signature, const Error& why) {
  if (why.code != Errc::kUnsupported) return why;
  if (!allow_synthetic) return no_kernel(lowered.graph(), op, why);
  const double us = static_cast<double>(costs.ns(device, op)) * 1e-3;
  bound.synthetic_.push_back(make_host ? make_host_synthetic(signature, us) : make_synthetic(signature, us));
  bound.kernels_[index(op)] = {.kernel = bound.synthetic_.back().get(), .synthetic = true};
  bound.synthetic_types_.emplace(lowered.graph().type_name(op), why.context);
  return Unit{};
}

Result<Unit> BoundGraph::Binder::bind(OpId op) {
  const OpGraph& graph = lowered.graph();
  Signature signature = signature_without_inputs(graph, op);
  BoundKernel& to = bound.kernels_[index(op)];
  for (const TensorId tensor : graph.inputs(op)) {
    Operand operand;
    auto input = bind_input(tensor, operand);
    if (!input) return use_synthetic(op, signature, input.error());
    if (runs_in_library(signature.type)) EMPLACE_TRY(align(*input, operand));
    if (input->part.copy != nullptr) to.scratch_bytes += aligned(input->part.bytes);
    for (const Packing& reorder : input->reorders) to.scratch_bytes += aligned(reorder.bytes);
    to.inputs.push_back(*std::move(input));
    signature.inputs.push_back(std::move(operand));
  }
  auto kernel = kernel_of(signature);
  if (!kernel) return use_synthetic(op, signature, kernel.error());
  to.kernel = *kernel;
  to.scratch_bytes += aligned(static_cast<std::int64_t>(to.kernel->scratch_bytes()));
  return Unit{};
}

Result<BoundGraph> BoundGraph::make(const LoweredGraph& lowered, const Lane& lane, DeviceId device,
                                    const CostTable& costs, bool allow_synthetic,
                                    std::atomic<std::uint64_t>* progress, const MakeHostKernel& make_host) {
  BoundGraph bound;
  bound.kernels_.resize(lowered.num_ops());
  Binder binder{bound, lowered, lane, device, costs, allow_synthetic, progress, make_host};
  for (const OpId op : lowered.kernels()) EMPLACE_TRY(binder.bind(op));
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    if (lowered.base(BufferId{b}) == BufferId{b}) continue;
    Operand unused;
    auto input = binder.bind_input(lowered.tensor(BufferId{b}), unused);
    if (!input) {  // The op that reads it is synthetic; the values are irrelevant.
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
