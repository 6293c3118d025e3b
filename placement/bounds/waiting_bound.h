#pragma once
/// Bounds the step time of memory plans: what waits while one kernel runs is in memory, or is made again
/// after it, which takes time. The proofs are in docs/proofs/bounds.md.

#include <cstdint>
#include <vector>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/work_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// The dual solution of a linear relaxation. Every byte that is in memory while `kernel` runs pays `rent`.
/// The demand for a buffer is worth an amount, at most the rent of the buffer; an op that runs again passes
/// the amounts of its outputs on to what it reads, less the time that it takes.
struct WaitingBound {
  /// Amounts are numbers of ns / kUnits.
  static constexpr std::int64_t kUnits = 1024;
  struct Kept {
    BufferId buffer{};
    std::int64_t amount = 0;
  };
  struct Read {
    OpId op{};
    BufferId buffer{};
    std::int64_t amount = 0;
  };
  double ns = 0;           ///< 0 if nothing has to be made again.
  OpId kernel = kNoOp;     ///< The kernel while which the most must wait.
  double rent = 0;         ///< [ns/B]
  std::vector<Kept> kept;  ///< Amounts > 0 of buffers, each once.
  std::vector<Read> read;  ///< Amounts > 0 that ops pass on.
};

/// Extends the bound of all work, `work`, by what must run again with any memory plan. Takes about ten
/// maximum flows through the forward pass. Pure; any thread.
WaitingBound waiting_bound(const LoweredGraph& lowered, const Constraints& constraints,
                           const DeviceKinds& kinds, const CostTable& costs, const WorkBound& work);

/// The least bytes besides state that are in all memories together while some kernel runs, with any memory
/// plan. `one_device`: the machine has no other. Pure; any thread.
std::int64_t least_alive_bytes(const LoweredGraph& lowered, bool one_device);

/// [ops] Whether a memory plan may run the op again.
std::vector<bool> recomputable_ops(const OpGraph& graph);

}  // namespace emplace
