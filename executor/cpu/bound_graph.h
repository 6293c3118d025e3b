#pragma once
/// The ops of a graph with their kernels and inputs, independent of the placement.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/strided_copy.h"
#include "executor/plan/task_plan.h"
#include "graph/lowering.h"

namespace emplace::cpu {

/// How a kernel accesses one of its inputs. A part of a tensor is packed first, so that the kernel uses the
/// same numbers in the same order whether it reads the part itself or a copy of it.
struct BoundInput {
  BufferId buffer{};
  /// Extracts the part from its base on the home device; null for a whole tensor.
  const StridedCopy* part = nullptr;
  std::int64_t part_offset = 0;  ///< Offset of the part in its base [B].
  bool part_is_packed = false;   ///< True: the part is contiguous and needs no copy.
  /// Packed copies for reshapes of non-contiguous tensors.
  std::vector<const StridedCopy*> reorders;
  std::vector<std::int64_t> reorder_offsets;  ///< Offset of each reorder in its source [B].
  std::int64_t offset = 0;                    ///< Offset of element 0 in the last reorder's result [B].
};

/// An op and its kernel; without a kernel the op is synthetic.
struct BoundKernel {
  const Kernel* kernel = nullptr;
  std::vector<BoundInput> inputs;
  std::int64_t scratch_bytes = 0;  ///< Scratch of the kernel and of all packed inputs [B].
};

/// Immutable after make(). Any thread.
class BoundGraph {
 public:
  /// Errors: kUnsupported with the op, if an op has no kernel and `allow_synthetic` is false.
  static Result<BoundGraph> make(const LoweredGraph& lowered, bool allow_synthetic);

  const BoundKernel& kernel(OpId op) const { return kernels_[index(op)]; }
  /// How a transfer extracts a part from its base; null for a whole tensor.
  const BoundInput* part(BufferId buffer) const;
  /// Types of synthetic ops, with the reason.
  const std::set<std::string>& synthetic_types() const { return synthetic_types_; }

  /// Sets pointers to the inputs of `op` and packs inputs into `scratch` where needed. `memory(buffer)`:
  /// the planned address of a buffer; `is_copy(buffer)`: whether it is a received copy. Returns the unused
  /// rest of `scratch`.
  template <class Memory, class IsCopy>
  std::byte* resolve(OpId op, Memory memory, IsCopy is_copy, std::byte* scratch,
                     std::vector<const std::byte*>& pointers) const {
    pointers.clear();
    for (const BoundInput& input : kernels_[index(op)].inputs) {
      const std::byte* at = memory(input.buffer);
      const auto pack = [&](const StridedCopy& copy) {
        copy.run(at, scratch);
        at = scratch;
        scratch += aligned(static_cast<std::int64_t>(copy.bytes()));
      };
      if (input.part != nullptr && !is_copy(input.buffer)) {
        at += input.part_offset;
        if (!input.part_is_packed) pack(*input.part);
      }
      for (std::size_t i = 0; i < input.reorders.size(); ++i) {
        at += input.reorder_offsets[i];
        pack(*input.reorders[i]);
      }
      pointers.push_back(at + input.offset);
    }
    return scratch;
  }
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  Result<Unit> bind(const LoweredGraph& lowered, OpId op, bool allow_synthetic);
  Result<BoundInput> bind_input(const LoweredGraph& lowered, TensorId tensor, Operand& operand);
  const StridedCopy* copy_of(const Operand& operand);

  std::vector<BoundKernel> kernels_;                               // [ops]
  std::unordered_map<std::string, std::unique_ptr<Kernel>> made_;  // Kernels by signature; null: unsupported.
  std::unordered_map<std::string, std::unique_ptr<StridedCopy>> copies_;
  std::unordered_map<std::uint32_t, BoundInput> parts_;  // Parts by buffer.
  std::set<std::string> synthetic_types_;
};

}  // namespace emplace::cpu
