#pragma once
/// Bounds how early each op can start and how much time must follow it, with transfers and serialisation on a
/// device. The proofs are in docs/proofs/bounds.md.

#include <cstdint>
#include <vector>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// Heads and tails [ops, kinds], row-major, in whole ns; DeviceKinds::kNever where the op is not allowed.
struct Routes {
  std::vector<std::int64_t> head_ns;  ///< Earliest start of the op on a device of the kind.
  std::vector<std::int64_t> tail_ns;  ///< Least time from the end of the op to the end of the step.
  std::int64_t longest_ns = 0;  ///< Lower bound: maximum over ops of head + time + tail on the best kind.
};

/// O((ops + reads) · kinds² + joins · kinds · window · log window); the window shrinks for large graphs. @pre
/// at most 16 kinds. Pure; any thread.
Routes routes(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
              const CostTable& costs);

}  // namespace emplace
