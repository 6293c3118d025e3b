#pragma once
/// How early each op can start and how much must follow it, transfers and waiting lines included.
/// docs/proofs/bounds.md has the proofs.

#include <cstdint>
#include <vector>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// [ops, kinds] row-major, in whole ns; DeviceKinds::kNever where the op may not be.
struct Routes {
  std::vector<std::int64_t> head_ns;  ///< If the op is on that kind, it starts no earlier.
  std::vector<std::int64_t> tail_ns;  ///< And its end is followed by at least this.
  std::int64_t longest_ns = 0;        ///< The largest over ops of head + time + tail on its best kind.
};

/// O((ops + reads) · kinds² + joins · kinds · window · log window), where the window shrinks for large
/// graphs.
/// @pre at most 16 kinds. Pure; any thread.
Routes routes(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
              const CostTable& costs);

}  // namespace emplace
