#pragma once
/// The order in a placement file, obeyed by the commands that read it.

#include <string>

#include "base/result.h"
#include "graph/order.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/console.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// If the placement file lists an order, renumbers the graph, rules, constraints and placement in it, so that
/// everything that takes ready ops by id obeys it, and prints one line. Returns the order; empty if there is
/// none, or if the objective or the dispatch has no order (then a line reports that). Errors: those of
/// load_order().
Result<OpOrder> obey_order(const std::string& file, Inputs& inputs, Placement& placement, Console& console);

}  // namespace emplace::launcher
