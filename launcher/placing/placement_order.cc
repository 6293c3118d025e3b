#include "launcher/placing/placement_order.h"

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "placement/order.h"
#include "placement/placement_file.h"

namespace emplace::launcher {

Result<OpOrder> obey_order(const std::string& file, Inputs& inputs, Placement& placement, Console& console) {
  EMPLACE_TRY_ASSIGN(OpOrder order, load_order(file, inputs.graph, graph_sha256(inputs.graph)));
  if (order.empty()) return order;
  if (inputs.judge.objective != Objective::kStepTime ||
      inputs.judge.simulator.dispatch != Dispatch::kProgram || inputs.judge.placeto) {
    console.note(printable(file) +
                 ": its order is not used; it needs --objective step-time, --dispatch program and no "
                 "--executor placeto");
    return OpOrder{};
  }
  OpGraph graph = renumbered(inputs.graph, order);
  inputs.constraints = renumbered(inputs.constraints, graph, inputs.devices, order);
  inputs.rules = renumbered(inputs.rules, order);
  inputs.graph = std::move(graph);
  placement = renumbered(placement, order);
  console.note("order: from the placement file");
  return order;
}

}  // namespace emplace::launcher
