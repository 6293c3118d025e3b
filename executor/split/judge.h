#pragma once
/// The model that evaluates placements without real devices, by objective.

#include <memory>
#include <string>

#include "executor/sim/simulator.h"
#include "placement/bounds/lower_bound.h"
#include "placement/objective.h"
#include "placement/strategy.h"

namespace emplace {

/// An objective, and the simulator's options for it. A plain value.
struct Judge {
  Objective objective = Objective::kStepTime;
  SimulatorOptions simulator;  ///< Options for step times.
  Strategy strategy;           ///< Micro-batches of a step, for step times by the simulator.
  bool placeto = false;        ///< Step times by Placeto's simulator (executor/sim/placeto_model.h).
};

/// Errors: kInvalid for an unknown objective or dispatch.
Result<Judge> parse_judge(const std::string& objective, const std::string& dispatch);

/// Errors (kInvalid): a strategy with another objective, dispatch or model of a step.
Result<Unit> check_strategy(const Judge& judge);

/// Creates the simulator of steps or pipelines, or the load or latency model of splits. `graph` and `devices`
/// must outlive it. @pre check_strategy(judge), check_strategy(judge.strategy, devices), and
/// check_micro_batches(graph) if there are several.
std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge);

/// Whether a placement is valid only if one simulated step fits, so that proofs about steps (must_fit())
/// hold.
bool fits_a_step(const Judge& judge, const OpGraph& graph);

/// Returns the proven bound of the judge's objective; 0 s for Placeto's simulator, whose links and lack of
/// memory limits no bound of the machine covers.
ProvenBound bound_of(const Judge& judge, const OpGraph& graph, const DeviceSet& devices,
                     const Constraints& constraints, const Allowed& allowed = {});

}  // namespace emplace
