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
/// The same constraints on the renumbered graph `graph`.
Constraints renumbered(const Constraints& constraints, const OpGraph& graph, const DeviceSet& devices,
                       std::span<const OpId> order);

/// The rules with the same effect on the graph of a plan; ops of the plan obey those of their source.
AppliedRules planned(const AppliedRules& rules, const PlannedGraph& plan, const DeviceSet& devices);
/// The same constraints on the graph of a plan; ops of the plan are in the class of their source.
Constraints planned(const Constraints& constraints, const PlannedGraph& plan, const DeviceSet& devices);
/// The placement of the graph of a plan that puts each op where `placement` puts its source.
Placement planned(const Placement& placement, const PlannedGraph& plan);
/// The times of the ops of a plan: those of the ops that they repeat.
CostTable planned(const CostTable& costs, const PlannedGraph& plan);
/// The reverse: where a placement of the graph of a plan puts the original ops.
Placement original(const Placement& placement, const PlannedGraph& plan);

}  // namespace emplace
