// The solver as a library: places a training graph on a machine within two seconds.
//   usage: solver_example [GRAPH [MACHINE]]
#include <fmt/core.h>

#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/machine_text.h"
#include "solver/solve.h"

namespace {

using namespace emplace;

Result<Unit> place(const std::string& file, const std::string& machine_text) {
  EMPLACE_TRY_ASSIGN(const OpGraph graph, load_graph(file));
  EMPLACE_TRY_ASSIGN(const DeviceSet machine, parse_machine(machine_text));
  const Request request{.graph = &graph, .machine = &machine, .budget = {2}};
  const SystemClock clock;
  EMPLACE_TRY_ASSIGN(const Answer answer, solve(request, {.clock = &clock}));
  fmt::print("{} ops on {} devices: {} by {}\n", graph.num_ops(), machine.size(),
             answer.measurement.valid ? format_seconds(answer.measurement.step_time_s) : "does not fit",
             answer.method);
  return Unit{};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string graph = argc > 1 ? argv[1] : "configs/graphs/nmt-2layer-bs64.json.gz";
  const auto placed = place(graph, argc > 2 ? argv[2] : "h100 x 2, epyc9654");
  if (placed) return 0;
  fmt::print(stderr, "error: {}\n", placed.error().context);
  return 2;
}
