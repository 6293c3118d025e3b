#pragma once
/// The ops of a graph with their kernels and inputs on one device, independent of the placement.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/kernel/binding.h"

namespace emplace {

/// A packed copy of a strided range, made before a kernel or a transfer reads it.
template <class Copy>
struct Packing {
  const Copy* copy = nullptr;  ///< Null: the range is contiguous and needs no copy.
  std::int64_t offset = 0;     ///< Offset of the range in its source [B].
  std::int64_t bytes = 0;      ///< Size of the packed result [B].
};

/// How a kernel accesses one of its inputs. A part of a tensor is packed first, so that the kernel uses the
/// same numbers in the same order whether it reads the part itself or a copy of it.
template <class Copy>
struct BoundInput {
  BufferId buffer{};
  /// True: the buffer is a part of a tensor; on the home device it is extracted from it.
  bool is_part = false;
  Packing<Copy> part;  ///< How the part is extracted.
  std::vector<Packing<Copy>>
      reorders;             ///< Copies for reshapes of strided tensors, each of the previous result.
  std::int64_t offset = 0;  ///< Offset of element 0 in the last result [B].
};

/// An op and its kernel.
template <class Kernel, class Copy>
struct BoundKernel {
  const Kernel* kernel = nullptr;  ///< May be null if the op is synthetic.
  bool synthetic = false;          ///< True: the op has no kernel.
  std::vector<BoundInput<Copy>> inputs;
  std::int64_t scratch_bytes = 0;  ///< Scratch of the kernel and of its packed inputs [B].
};

/// What a device makes kernels and copies of.
template <class Kernel, class Copy>
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;
  /// Errors: kUnsupported, which makes the op synthetic; others end the binding.
  virtual Result<std::unique_ptr<Kernel>> kernel(const Signature& signature) = 0;
  /// The copy of a view to a packed operand. Errors: as kernel().
  virtual Result<std::unique_ptr<Copy>> copy(const Operand& view) = 0;
  /// The stand-in for an op without a kernel; null if the executor has its own.
  virtual std::unique_ptr<Kernel> stand_in(OpId op, const Signature& signature) = 0;
  /// The alignment of operands that kernels of a type are promised [B].
  virtual std::int64_t promised(const std::string& /*type*/) { return 1; }
};

/// `kAlignment`: that of the kernels' scratch, and of each packed input in it [B]. Immutable after make().
/// Any thread.
template <class Kernel, class Copy, std::int64_t kAlignment>
class BoundGraph {
 public:
  static std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Errors: kUnsupported with the op, if an op has no kernel and `allow_synthetic` is false; those of
  /// `maker`.
  static Result<BoundGraph> make(const LoweredGraph& lowered, KernelMaker<Kernel, Copy>& maker,
                                 bool allow_synthetic) {
    BoundGraph bound;
    bound.kernels_.resize(lowered.num_ops());
    for (const OpId op : lowered.kernels()) EMPLACE_TRY(bound.bind(lowered, maker, op, allow_synthetic));
    for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
      if (lowered.base(BufferId{b}) == BufferId{b}) continue;
      Operand unused;
      auto input = bound.bind_input(lowered, maker, lowered.tensor(BufferId{b}), unused);
      if (!input && input.error().code != Errc::kUnsupported) return input.error();
      if (input)
        bound.parts_.emplace(b, input->part);  // Else its reader is synthetic; the values are irrelevant.
    }
    return bound;
  }

  const BoundKernel<Kernel, Copy>& kernel(OpId op) const { return kernels_[index(op)]; }
  /// How a transfer extracts a part from its base; null for a whole tensor.
  const Packing<Copy>* part(BufferId buffer) const {
    const auto at = parts_.find(static_cast<std::uint32_t>(index(buffer)));
    return at == parts_.end() ? nullptr : &at->second;
  }
  /// Types of synthetic ops, with the reason of the first op of each.
  const std::map<std::string, std::string>& synthetic_types() const { return synthetic_types_; }

 private:
  using Maker = KernelMaker<Kernel, Copy>;

  /// What was made for the key, or why nothing was.
  template <class T>
  using Made = std::unordered_map<std::string, Result<std::unique_ptr<T>>>;

  template <class T, class Make>
  static Result<const T*> find_or_make(Made<T>& made, std::string key, Make make) {
    auto at = made.find(key);
    if (at == made.end()) at = made.emplace(std::move(key), make()).first;
    if (!at->second) return at->second.error();
    return static_cast<const T*>(at->second->get());
  }
  Result<const Copy*> copy_of(Maker& maker, const Operand& view) {
    return find_or_make(copies_, key_of(view), [&] { return maker.copy(view); });
  }
  Result<Packing<Copy>> packing_of(Maker& maker, const Cut& cut) {
    Packing<Copy> packing{nullptr, cut.offset, cut.operand.bytes()};
    if (!cut.operand.is_packed()) {
      EMPLACE_TRY_ASSIGN(packing.copy, copy_of(maker, cut.operand));
    }
    return packing;
  }

  Result<BoundInput<Copy>> bind_input(const LoweredGraph& lowered, Maker& maker, TensorId tensor,
                                      Operand& operand) {
    EMPLACE_TRY_ASSIGN(auto route, route_to(lowered, tensor));
    BoundInput<Copy> input{.buffer = route.buffer, .is_part = route.part.has_value()};
    if (route.part) {
      EMPLACE_TRY_ASSIGN(input.part, packing_of(maker, *route.part));
    }
    for (const Cut& reorder : route.reorders) {
      EMPLACE_TRY_ASSIGN(auto packing, packing_of(maker, reorder));
      input.reorders.push_back(packing);
    }
    input.offset = route.input.offset;
    operand = std::move(route.input.operand);
    return input;
  }

  /// Packs an input that may not lie on `promise` bytes. Errors: those of `maker`.
  Result<Unit> align(Maker& maker, std::int64_t promise, BoundInput<Copy>& input, Operand& operand) {
    // Buffers, scratch and packed copies are aligned. What follows the last of these moves the address.
    std::int64_t at = input.is_part && input.part.copy == nullptr ? input.part.offset % promise : 0;
    for (const Packing<Copy>& reorder : input.reorders)
      at = reorder.copy != nullptr ? 0 : (at + reorder.offset) % promise;
    // A part that was copied from another device is aligned, at home it may not be: both must be.
    if ((at + input.offset) % promise == 0 && input.offset % promise == 0) return Unit{};
    EMPLACE_TRY_ASSIGN(const Copy* const copy, copy_of(maker, operand));
    input.reorders.push_back({copy, std::exchange(input.offset, 0), operand.bytes()});
    operand = packed(operand.dtype, operand.shape);
    return Unit{};
  }

  Result<Unit> bind(const LoweredGraph& lowered, Maker& maker, OpId op, bool allow_synthetic) {
    const OpGraph& graph = lowered.graph();
    BoundKernel<Kernel, Copy>& bound = kernels_[index(op)];
    Signature signature = signature_without_inputs(graph, op);
    const auto use_synthetic = [&](const Error& why) -> Result<Unit> {
      if (why.code != Errc::kUnsupported) return why;
      if (!allow_synthetic) return no_kernel(graph, op, why);
      stand_ins_.push_back(maker.stand_in(op, signature));
      bound = {.kernel = stand_ins_.back().get(), .synthetic = true};
      synthetic_types_.emplace(graph.type_name(op), why.context);
      return Unit{};
    };
    for (const TensorId tensor : graph.inputs(op)) {
      Operand operand;
      auto input = bind_input(lowered, maker, tensor, operand);
      if (!input) return use_synthetic(input.error());
      EMPLACE_TRY(align(maker, maker.promised(signature.type), *input, operand));
      if (input->part.copy != nullptr) bound.scratch_bytes += aligned(input->part.bytes);
      for (const Packing<Copy>& reorder : input->reorders) bound.scratch_bytes += aligned(reorder.bytes);
      bound.inputs.push_back(*std::move(input));
      signature.inputs.push_back(std::move(operand));
    }
    const auto kernel = find_or_make(made_, key_of(signature), [&] { return maker.kernel(signature); });
    if (!kernel) return use_synthetic(kernel.error());
    bound.kernel = *kernel;
    bound.scratch_bytes += aligned(static_cast<std::int64_t>(bound.kernel->scratch_bytes()));
    return Unit{};
  }

  std::vector<BoundKernel<Kernel, Copy>> kernels_;  // [ops]
  Made<Kernel> made_;                               // The keys are signatures.
  Made<Copy> copies_;                               // The keys are operands.
  std::vector<std::unique_ptr<Kernel>> stand_ins_;
  std::unordered_map<std::uint32_t, Packing<Copy>> parts_;  // Parts by buffer.
  std::map<std::string, std::string> synthetic_types_;
};

}  // namespace emplace
