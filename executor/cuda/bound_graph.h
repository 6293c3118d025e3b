#pragma once
/// A graph's ops with their kernels on one logical device: what each reads, and how it is packed on the way.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cuda/kernel.h"
#include "graph/lowering.h"
#include "placement/machine/cost_model.h"

namespace emplace::cuda {

/// A copy of what does not lie in order, made before a kernel or a transfer reads it.
struct Packing {
  const Kernel* copy = nullptr;
  std::int64_t offset = 0;  ///< [B] where it begins in what it reads.
  std::int64_t bytes = 0;   ///< Of the packed result.
};

/// How a kernel gets at one of its inputs.
struct BoundInput {
  BufferId buffer{};
  bool is_part = false;           ///< The buffer is a part of a tensor; at home it is cut out of it:
  Packing part;                   ///< without a copy if it lies in order there (`copy` is null).
  std::vector<Packing> reorders;  ///< For reshapes of what is not in order; each reads the one before.
  std::int64_t offset = 0;        ///< [B] of element 0 in the last of these.
};

struct BoundKernel {
  const Kernel* kernel = nullptr;
  bool synthetic = false;  ///< It stands in for an op that has none.
  std::vector<BoundInput> inputs;
  std::int64_t scratch_bytes = 0;  ///< Of the kernel and everything that is packed for it.
};

/// Thread: one at a time.
class BoundGraph {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< [B] of everything in scratch.
  static std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Makes and prepares every kernel on `lane`. `costs` says how long an op on `device` takes that is stood
  /// in for. Errors: kUnsupported, with the op, if one has no kernel and `allow_synthetic` is false; of
  /// Session.
  static Result<BoundGraph> make(const LoweredGraph& lowered, const Lane& lane, DeviceId device,
                                 const CostTable& costs, bool allow_synthetic);

  const BoundKernel& kernel(OpId op) const { return kernels_[index(op)]; }
  /// How a part is cut from its base, for a transfer; null for a whole tensor.
  const Packing* part(BufferId buffer) const;
  const std::set<std::string>& synthetic_types() const { return synthetic_types_; }

 private:
  struct Binder;
  std::vector<BoundKernel> kernels_;                               // [ops]
  std::unordered_map<std::string, std::unique_ptr<Kernel>> made_;  // By signature; null: there is none.
  std::vector<std::unique_ptr<Kernel>> synthetic_;
  std::unordered_map<std::uint32_t, Packing> parts_;  // By buffer.
  std::set<std::string> synthetic_types_;
};

}  // namespace emplace::cuda
