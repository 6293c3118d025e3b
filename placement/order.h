#pragma once
/// Placements, rules and constraints of a graph whose ops are renumbered (graph/order.h), or that has the ops
/// of a memory plan (graph/memory_plan.h).

#include <span>

#include "base/ids.h"
#include "graph/memory_plan.h"
#include "graph/op_graph.h"
#include "placement/applied_rules.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace {

/// The placement of the renumbered graph that puts each op where `placement` puts it.
Placement renumbered(const Placement& placement, std::span<const OpId> order);
/// The reverse: a placement of the renumbered graph as one of the original graph.
Placement original(const Placement& placement, std::span<const OpId> order);
/// The rules with the same effect on the renumbered graph.
AppliedRules renumbered(const AppliedRules& rules, std::span<const OpId> order);

/// The rules with the same effect on the graph of a plan; ops of the plan obey those of their source.
AppliedRules planned(const AppliedRules& rules, const PlannedGraph& plan, const DeviceSet& devices);
/// The placement of the graph of a plan that puts each op where `placement` puts its source.
Placement planned(const Placement& placement, const PlannedGraph& plan);
/// The reverse: where a placement of the graph of a plan puts the original ops.
Placement original(const Placement& placement, const PlannedGraph& plan);

/// The same constraints, and the same times, for a graph derived from another one. `sources` [ops of
/// `graph`]: its order, or the sources of a plan: an op is in the class of its source, and takes as long;
/// kNoOp: it may be anywhere and takes no time, as views do.
Constraints derived(const Constraints& constraints, const OpGraph& graph, const DeviceSet& devices,
                    std::span<const OpId> sources);
CostTable derived(const CostTable& costs, const OpGraph& graph, std::span<const OpId> sources);

}  // namespace emplace
