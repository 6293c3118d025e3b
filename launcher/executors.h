#pragma once
/// Executors by the names that commands take, and what a placement is judged by.

#include <memory>
#include <string>
#include <string_view>

#include "executor/executor.h"
#include "executor/simulator.h"
#include "placement/objective.h"

namespace emplace::launcher {

/// By what a placement is judged where nothing real runs it.
struct Judge {
  Objective objective = Objective::kStepTime;
  SimulatorOptions simulator;  ///< Of step times.
};

/// "program" or "fifo". Errors: kInvalid.
Result<SimulatorOptions> simulator_options(const std::string& dispatch);
/// Errors: kInvalid for an objective or a dispatch that is none.
Result<Judge> parse_judge(const std::string& objective, const std::string& dispatch);

/// The simulator, or the model of loads or latencies of splits. `graph` and `devices` must outlive it.
std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge);

/// "sim" (a model); "fake" is the same without its delay. Errors: kUnsupported for kinds that this build does
/// not have; kInvalid for names that are none.
Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge);

/// A proven bound of what the judge measures [s], and which it is.
struct ProvenBound {
  double seconds = 0;
  std::string_view which;
};
ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         const Judge& judge);

}  // namespace emplace::launcher
