#pragma once
/// The ops of a graph with their kernels on one logical device, and the packing of their inputs.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cuda/kernels/host_kernel.h"
#include "executor/cuda/kernels/kernel.h"
#include "graph/lowering.h"
#include "placement/machine/cost_model.h"

namespace emplace::cuda {

/// A packed copy of a strided range, made before a kernel or a transfer reads it.
struct Packing {
  const Kernel* copy = nullptr;
  std::int64_t offset = 0;  ///< Offset of the range in its source [B].
  std::int64_t bytes = 0;   ///< Size of the packed result [B].
};

/// How a kernel accesses one of its inputs.
struct BoundInput {
  BufferId buffer{};
  /// True: the buffer is a part of a tensor; on the home device it is extracted from it.
  bool is_part = false;
  Packing part;                   ///< How the part is extracted; `copy` is null if it is contiguous.
  std::vector<Packing> reorders;  ///< Copies for reshapes of strided tensors; each reads the previous result.
  std::int64_t offset = 0;        ///< Offset of element 0 in the last result [B].
};

struct BoundKernel {
  const Kernel* kernel = nullptr;
  bool synthetic = false;  ///< True: a stand-in for an op without a kernel.
  std::vector<BoundInput> inputs;
  std::int64_t scratch_bytes = 0;  ///< Scratch of the kernel and of its packed inputs [B].
};

/// Thread: one at a time.
class BoundGraph {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< Alignment of all scratch allocations [B].
  static std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Creates and prepares every kernel on `lane`; for a device on the CPU `make_host` makes them. An op whose
  /// kernel a library refuses is synthetic. `costs`: duration of synthetic ops on `device`. `progress`:
  /// incremented with every kernel made. Errors: kUnsupported with the op, if an op has no kernel and
  /// `allow_synthetic` is false; those of Session.
  static Result<BoundGraph> make(const LoweredGraph& lowered, const Lane& lane, DeviceId device,
                                 const CostTable& costs, bool allow_synthetic,
                                 std::atomic<std::uint64_t>* progress = nullptr,
                                 const MakeHostKernel& make_host = {});

  const BoundKernel& kernel(OpId op) const { return kernels_[index(op)]; }
  /// How a transfer extracts a part from its base; null for a whole tensor.
  const Packing* part(BufferId buffer) const;
  /// Types of synthetic ops, with the reason of the first op of each.
  const std::map<std::string, std::string>& synthetic_types() const { return synthetic_types_; }

 private:
  struct Binder;
  std::vector<BoundKernel> kernels_;  // [ops]
  // Kernels by signature, or why there is none.
  std::unordered_map<std::string, Result<std::unique_ptr<Kernel>>> made_;
  std::vector<std::unique_ptr<Kernel>> synthetic_;
  std::unordered_map<std::uint32_t, Packing> parts_;  // Parts by buffer.
  std::map<std::string, std::string> synthetic_types_;
};

}  // namespace emplace::cuda
