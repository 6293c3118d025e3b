#include "launcher/placing/graph_options.h"

#include "base/text/words.h"
#include "executor/pipeline/pipeline_simulator.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "graph/training/micro_batch.h"
#include "launcher/placing/jitter_options.h"
#include "placement/order.h"
#include "placement/placement_file.h"

namespace emplace::launcher {

void declare_reading(Options& options, GraphReading& reading) {
  options.option("--from", reading.from, "Format of the graph file (default: detected from its content)");
  options.option("--shape", reading.shape, "Sizes of named dimensions, e.g. batch=8,seq=512");
  options.option("--batch", reading.batch, "Size of unknown first dimensions; 0: not given");
  options.non_empty("--float32", reading.float32,
                    "What products and convolutions of float32 tensors use: ieee, or tf32 on devices that "
                    "have it (default: what the graph records, else the default of its framework)");
}

void declare_costs(Options& options, InputOptions& inputs) {
  options.option("--cost-version", inputs.costs,
                 "Cost version of a machine that is no file, 1 or 2; a device file states its own");
}

void declare_inputs(Options& options, InputOptions& inputs) {
  options.operand("GRAPH", inputs.graph, "Graph file");
  options.non_empty("--devices,-d", inputs.devices, kDevicesHelp);
  options.option("--rules", inputs.rules,
                 "Rules file: pins, allowed and forbidden devices, co-location by op name, type or scope "
                 "(default: none)");
  options.option("--objective", inputs.objective,
                 "Objective to minimise: step-time, throughput, latency or max-load");
  options.option("--reserve", inputs.reserve, "Memory kept free per device, e.g. 10% or 2GiB (default: 0%)");
  options.option("--dispatch", inputs.dispatch, "Order in which a device runs ready ops: program or fifo");
  declare_costs(options, inputs);
  declare_reading(options, inputs.reading);
}

void declare_strategy(Options& options, InputOptions& inputs) {
  options
      .option("--micro-batches", inputs.micro_batches,
              "Forward and backward passes of a training graph before its update; their stages are where the "
              "placement changes devices")
      .option(
          "--replicas", inputs.replicas,
          "Copies of the model that share the micro-batches; their gradients are added up before the update")
      .option("--schedule", inputs.schedule, "Order of the passes of several micro-batches: 1f1b or gpipe");
}

void report_assumptions(const OpGraph& graph, const std::string& file, Console& console) {
  const std::string uncounted = uncounted_note(graph);
  for (const std::string& note : graph_notes(graph)) {
    const std::string line = printable(file) + ": " + printable(note, 1'000);
    if (note == uncounted) {
      console.warn(line);
    } else {
      console.note(line);
    }
  }
}

void report_assumptions(const Inputs& inputs, const std::string& file, Console& console) {
  for (const std::string& note : inputs.machine_notes) console.note(note);
  report_assumptions(inputs.graph, file, console);
}

bool has_steps(const Judge& judge) {
  return judge.objective == Objective::kStepTime && judge.simulator.dispatch == Dispatch::kProgram &&
         !judge.placeto;
}

Result<Unit> obey_plan(const MemoryPlan& plan, Inputs& inputs, Placement& placement) {
  EMPLACE_TRY_ASSIGN(PlannedGraph graph, planned(inputs.graph, plan, inputs.devices.names()));
  inputs.constraints = derived(inputs.constraints, graph.graph, inputs.devices, graph.source);
  inputs.rules = planned(inputs.rules, graph, inputs.devices);
  placement = planned(placement, graph);
  inputs.graph = std::move(graph.graph);
  return Unit{};
}

Result<Unit> obey_strategy(Inputs& inputs, Placement& placement) {
  const PipelineSimulator simulator{inputs.graph, inputs.devices, inputs.judge.strategy};
  EMPLACE_TRY_ASSIGN(UnrolledGraph step, simulator.unroll(placement));
  std::vector<OpId> sources;  // Among the ops of the graph.
  // Rules are about devices of the first replica.
  const bool replicas = !inputs.judge.strategy.replicas.empty();
  for (const OpId op : step.source)
    sources.push_back(op == kNoOp || replicas ? kNoOp : simulator.micro_batch().source[index(op)]);
  inputs.constraints = derived(inputs.constraints, step.graph, inputs.devices, sources);
  inputs.graph = std::move(step.graph);
  inputs.judge.strategy = {};
  placement = std::move(step.placement);
  return Unit{};
}

namespace {

/// Lets the judge take over the strategy of a placement file.
Result<Unit> take_strategy(const std::string& file, Inputs& inputs, Console& console) {
  EMPLACE_TRY_ASSIGN(const Strategy strategy, load_strategy(file, inputs.devices));
  if (!strategy.pipelined() || inputs.judge.strategy.pipelined()) return Unit{};
  if (!has_steps(inputs.judge)) {
    console.note(printable(file) +
                 ": its micro-batches are not used; they need --objective step-time, --dispatch "
                 "program and no --executor placeto");
    return Unit{};
  }
  if (auto checked = check_micro_batches(inputs.graph); !checked)
    return invalid(printable(file), checked.error().context);
  inputs.judge.strategy = strategy;
  console.note("micro-batches: " + std::to_string(strategy.micro_batches) + " (" +
               std::string{word_of(strategy.schedule)} + ")" +
               (strategy.replicas.empty() ? "" : ", replicas: " + std::to_string(strategy.num_replicas())) +
               ", from the placement file");
  return Unit{};
}

}  // namespace

Result<OpenedPlacement> open_placement(const std::string& file, Inputs& inputs, Console& console) {
  OpenedPlacement opened{.graph_sha256 = graph_sha256(inputs.graph)};
  EMPLACE_TRY_ASSIGN(opened.placement,
                     load_placement(file, inputs.graph, opened.graph_sha256, inputs.devices, Plans::kKnown));
  if (auto obeyed = inputs.constraints.check(inputs.graph, inputs.devices, opened.placement); !obeyed)
    return invalid(printable(file), obeyed.error().context);
  EMPLACE_TRY_ASSIGN(const MemoryPlan plan,
                     load_plan(file, inputs.graph, opened.graph_sha256, inputs.devices));
  if (plan.empty()) {
    EMPLACE_TRY(take_strategy(file, inputs, console));
    return opened;
  }
  if (!has_steps(inputs.judge))
    return invalid(printable(file), "has memory decisions",
                   "use --objective step-time, --dispatch program and no --executor placeto");
  Measurement kept;
  EMPLACE_TRY(
      Simulator(inputs.graph, inputs.devices, inputs.judge.simulator).measure(opened.placement, kept));
  opened.unplanned = UnplannedPlacement{plan, inputs.graph, opened.placement, std::move(kept)};
  if (auto obeyed = obey_plan(plan, inputs, opened.placement); !obeyed)
    return Error{obeyed.error().code, printable(file) + ": " + obeyed.error().context};
  console.note("memory plan: from the placement file");
  EMPLACE_TRY(take_strategy(file, inputs, console));
  return opened;
}

Result<OpOrder> obey_order(const std::string& file, Inputs& inputs, OpenedPlacement& opened,
                           Console& console) {
  EMPLACE_TRY_ASSIGN(OpOrder order, load_order(file, inputs.graph, opened.graph_sha256));
  if (order.empty()) return order;
  if (!has_steps(inputs.judge)) {
    console.note(printable(file) +
                 ": its order is not used; it needs --objective step-time, --dispatch program and no "
                 "--executor placeto");
    return OpOrder{};
  }
  OpGraph graph = renumbered(inputs.graph, order);
  inputs.constraints = derived(inputs.constraints, graph, inputs.devices, order);
  inputs.rules = renumbered(inputs.rules, order);
  inputs.graph = std::move(graph);
  opened.placement = renumbered(opened.placement, order);
  console.note("order: from the placement file");
  return order;
}

Result<Unit> check_step_model(const std::string& executor) {
  if (executor == "sim" || executor == "placeto") return Unit{};
  return invalid("--executor '" + printable(executor, 40) + "'", "evaluates no search",
                 "use sim or placeto, and emplace evaluate for real devices");
}

Result<Unit> use_placeto(bool placeto, Judge& judge, Console& console) {
  judge.placeto = placeto;
  if (!placeto) return Unit{};
  if (judge.objective != Objective::kStepTime)
    return invalid("--executor placeto", "simulates only step times",
                   "use --objective step-time, or --executor sim");
  console.note("Placeto's simulator has no memory: every placement fits, and peaks are 0");
  return Unit{};
}

Result<Inputs> open_problem(const InputOptions& options, bool placeto, const std::string& noise,
                            Console& console) {
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(options));
  EMPLACE_TRY(use_placeto(placeto, inputs.judge, console));
  if (!noise.empty()) EMPLACE_TRY(check_jitter(noise, inputs.judge));
  report_assumptions(inputs, options.graph, console);
  for (const std::string& line : inputs.rules.lines()) console.note(line);
  return inputs;
}

Result<Unit> check_memory(const InputOptions& options, const Inputs& inputs, bool recomputes) {
  if (inputs.judge.placeto) return Unit{};  // It has no memory.
  auto fits = must_fit(inputs, recomputes);
  if (!fits) return Error{fits.error().code, printable(options.graph) + ": " + fits.error().context};
  return Unit{};
}

}  // namespace emplace::launcher
