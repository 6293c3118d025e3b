#pragma once
/// What commands that place share: the options of the graph and the machine, placement files with the order
/// in them, and the model of a step that a search asks.

#include <optional>
#include <string>

#include "base/result.h"
#include "executor/split/judge.h"
#include "graph/memory_plan.h"
#include "graph/order.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/options.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// Declares --from, --shape, --batch and --float32.
void declare_reading(Options& options, GraphReading& reading);
/// Declares --cost-version.
void declare_costs(Options& options, InputOptions& inputs);
/// Declares GRAPH, --devices, --rules, --objective, --reserve, --dispatch, --cost-version and the options of
/// declare_reading().
void declare_inputs(Options& options, InputOptions& inputs);

/// Declares --micro-batches and --schedule.
void declare_strategy(Options& options, InputOptions& inputs);

/// Text of --devices in --help.
inline constexpr const char* kDevicesHelp =
    "Machine: a device file, text such as \"h100 x 4, epyc9654\", or here (default: the machine that the "
    "graph "
    "file contains, else here)";

/// Prints one line on standard error per assumption that the graph's reader made.
void report_assumptions(const OpGraph& graph, const std::string& file, Console& console);
/// Prints also those about the machine.
void report_assumptions(const Inputs& inputs, const std::string& file, Console& console);

/// Puts the ops of a memory plan into the graph, rules, constraints and placement. Errors: those of
/// planned().
Result<Unit> obey_plan(const MemoryPlan& plan, Inputs& inputs, Placement& placement);

/// Puts the ops of all micro-batches into the graph, constraints and placement, so that what simulates steps
/// needs to know none. Errors: those of unrolled().
Result<Unit> obey_strategy(Inputs& inputs, Placement& placement);

/// Whether the judge's steps have an order and memory.
bool has_steps(const Judge& judge);

/// What a placement file with a memory plan places, before the plan's ops are in it.
struct UnplannedPlacement {
  MemoryPlan plan;
  OpGraph graph;
  Placement placement;
  Measurement measured;  ///< The step if everything is kept.
};
/// The content of a placement file.
struct OpenedPlacement {
  Placement placement;  ///< A placement of the plan's graph if the file has a memory plan.
  std::optional<UnplannedPlacement> unplanned;  ///< None: the file has no plan.
  std::string graph_sha256;                     ///< Hash of the graph without the plan.
};
/// Reads a placement file. If it has memory decisions, puts their ops into the inputs and prints one line. If
/// it states a strategy and the judge has none, the judge takes it over, and a line reports that. Errors:
/// those of load_placement(), load_plan() and obey_plan(); kInvalid for a placement that violates the
/// constraints, and for decisions with another objective or model of a step.
Result<OpenedPlacement> open_placement(const std::string& file, Inputs& inputs, Console& console);

/// If the placement file lists an order, renumbers the graph, rules, constraints and placement in it, so that
/// everything that takes ready ops by id obeys it, and prints one line. Returns the order; empty if there is
/// none, or if the objective or the dispatch has no order (then a line reports that). Errors: those of
/// load_order().
Result<OpOrder> obey_order(const std::string& file, Inputs& inputs, OpenedPlacement& opened,
                           Console& console);

/// Errors (kInvalid): an --executor of a command that searches, other than sim and placeto.
Result<Unit> check_step_model(const std::string& executor);

/// Lets `judge` take step times by Placeto's simulator if `placeto`, and prints a line that it has no memory.
/// Errors (kInvalid): another objective.
Result<Unit> use_placeto(bool placeto, Judge& judge, Console& console);

/// Opens the inputs of a command that searches, and prints what it assumes about them. `noise`: the option
/// that asks for noisy steps; empty: none. Errors: those of open_inputs(), use_placeto() and check_jitter().
Result<Inputs> open_problem(const InputOptions& options, bool placeto, const std::string& noise,
                            Console& console);
/// Errors (kNoPlacement): provably nothing fits, with the graph's file. `recomputes`: must_fit() (inputs.h).
Result<Unit> check_memory(const InputOptions& options, const Inputs& inputs, bool recomputes = false);

}  // namespace emplace::launcher
