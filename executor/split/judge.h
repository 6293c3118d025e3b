#pragma once
/// What a placement is judged by where nothing real runs it, and the model that does so.

#include <memory>
#include <string>

#include "executor/sim/simulator.h"
#include "placement/objective.h"

namespace emplace {

/// An objective, and how the simulator measures it. A plain value.
struct Judge {
  Objective objective = Objective::kStepTime;
  SimulatorOptions simulator;  ///< Of step times.
};

/// Errors: kInvalid for an objective or a dispatch that is none.
Result<Judge> parse_judge(const std::string& objective, const std::string& dispatch);

/// The simulator, or the model of loads or latencies of splits. `graph` and `devices` must outlive it.
std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge);

}  // namespace emplace
