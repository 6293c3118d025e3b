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

/// Why an op cannot start before `start_ns` on a kind: otherwise all ops of `line` would run on its device
/// before it. Each op of the line is an input of the op, or of an op before it in the line.
struct RouteJoin {
  OpId op{};
  std::size_t kind = 0;
  std::int64_t start_ns = 0;
  std::vector<OpId> line;
};

/// The joins that prove some heads and tails; all other values follow from one input at a time.
struct RouteProof {
  std::vector<RouteJoin> heads, tails;  ///< In topological order of their direction.
};

/// Proves the heads and tails [ops, kinds, ns] that are wanted, as far as those of routes() reach; values of
/// 0 or less need no proof. Takes as long as routes(). Pure; any thread.
RouteProof route_proof(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
                       const CostTable& costs, std::vector<std::int64_t> wanted_heads,
                       std::vector<std::int64_t> wanted_tails);

}  // namespace emplace
