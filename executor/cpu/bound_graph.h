#pragma once
/// A graph's ops with their kernels: what each reads and how, independent of where it is placed.

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

/// How a kernel gets at one of its inputs. What is a part of a tensor is packed first, so that the kernel
/// works on the same numbers in the same order whether it reads the part at home or a copy of it.
struct BoundInput {
  BufferId buffer{};
  const StridedCopy* part = nullptr;  ///< At home: the part out of its base; null for a whole tensor.
  std::int64_t part_offset = 0;       ///< [B] where the part begins in its base.
  bool part_is_packed = false;        ///< The part lies without holes: no copy is needed.
  std::vector<const StridedCopy*>
      reorders;  ///< Packed copies on the way, for reshapes of what is not in order.
  std::vector<std::int64_t> reorder_offsets;  ///< [B] where each begins in what it reads.
  std::int64_t offset = 0;                    ///< [B] of element 0 in the last of these.
};

/// An op and its kernel. Without a kernel it is stood in for.
struct BoundKernel {
  const Kernel* kernel = nullptr;
  std::vector<BoundInput> inputs;
  std::int64_t scratch_bytes = 0;  ///< Of the kernel and of every packed input.
};

/// Immutable after make(); any thread.
class BoundGraph {
 public:
  /// Errors: kUnsupported, with the op, if there is no kernel for one and `allow_synthetic` is false.
  static Result<BoundGraph> make(const LoweredGraph& lowered, bool allow_synthetic);

  const BoundKernel& kernel(OpId op) const { return kernels_[index(op)]; }
  /// How a part is cut from its base, for a transfer; null for a whole tensor.
  const BoundInput* part(BufferId buffer) const;
  /// Types of ops that are stood in for, with why.
  const std::set<std::string>& synthetic_types() const { return synthetic_types_; }

  /// Pointers to the inputs of `op`, where `memory(buffer)` is where the plan has each buffer,
  /// `is_copy(buffer)` whether that is a copy. Packs what must be packed into `scratch` and returns the rest
  /// of it.
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
  std::unordered_map<std::string, std::unique_ptr<Kernel>> made_;  // By signature; null: there is none.
  std::unordered_map<std::string, std::unique_ptr<StridedCopy>> copies_;
  std::unordered_map<std::uint32_t, BoundInput> parts_;  // By buffer.
  std::set<std::string> synthetic_types_;
};

}  // namespace emplace::cpu
