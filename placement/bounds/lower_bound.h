#pragma once
/// Proven lower bounds of the step time, and of the other objectives: no placement that fits is better. The
/// proofs are in docs/proofs/bounds.md.

#include "graph/op_graph.h"
#include "placement/allowed.h"
#include "placement/bounds/bound_proof.h"
#include "placement/machine/cost_model.h"
#include "placement/objective.h"
#include "placement/placement.h"
#include "placement/strategy.h"

namespace emplace {

struct LowerBound {
  double path_s = 0;     ///< Critical path with each op on its fastest allowed device; transfers are free.
  double work_s = 0;     ///< Total work, divided freely over all devices (a dual bound).
  double route_s = 0;    ///< Critical path with transfers, where inputs on one device are serialised.
  double memory_s = 0;   ///< Total work with state limited by memory; 0 if memory does not bind.
  double window_s = 0;   ///< Least head + work + least tail over the best set of ops.
  double waiting_s = 0;  ///< Total work and what must run again in the memory there is; 0 if nothing must.

  double seconds() const;
  BoundProof proof() const;  ///< The proof of the largest bound; the simplest one of a tie.
};

/// Valid under the simulator's rules (docs/reference/measurement.md) in any dispatch order. Takes well under
/// half a second for 25k ops and 9 devices (docs/results/performance.md). `allowed`: of placements with
/// memory plans. Pure; any thread.
LowerBound lower_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs, const Allowed& allowed = {});

/// A lower bound of an objective over all placements [s], and its proof.
struct ProvenBound {
  double seconds = 0;
  BoundProof proof = BoundProof::kNone;
};
ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         Objective objective, const Allowed& allowed = {});

/// The same for steps of several micro-batches (docs/reference/pipelines.md). @pre
/// check_micro_batches(graph).
ProvenBound strategy_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                           const Strategy& strategy);

}  // namespace emplace
