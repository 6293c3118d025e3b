#pragma once
/// Executors by the names that commands take, and what a placement is judged by.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "executor/executor.h"
#include "executor/real_executor.h"
#include "executor/sim/simulator.h"
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

/// How an executor of real devices, which lives in a process of its own, is started and timed.
struct ProcessRequest {
  RealOptions real;
  std::string chaos;                             ///< launcher/exec/chaos.h; for tests.
  double delay_s = 0;                            ///< Of "fake": what a measurement takes.
  double deadline_s = 30;                        ///< Without progress, at least.
  std::uint32_t restarts = 5;                    ///< Within a minute.
  std::function<bool()> interrupted;             ///< Ends a call that waits.
  std::function<void(const std::string&)> note;  ///< Is told what processes die of.
};
/// "median" or "mean". Errors: kInvalid.
Result<TimingOptions::Statistic> parse_statistic(const std::string& name);
/// An executor process that can be started: the program is there, and it can measure what `judge` asks for.
/// Errors: kUnsupported, kInvalid.
Result<Unit> check_process_executor(const std::string& kind, const Judge& judge,
                                    const ProcessRequest& request);
/// @pre check_process_executor. `graph` and `devices` must outlive it.
std::unique_ptr<RealExecutor> make_process_executor(const std::string& kind, const OpGraph& graph,
                                                    const DeviceSet& devices, const ProcessRequest& request);

/// "sim" is a model; "cpu", "cuda" and "fake" are processes. Errors: kUnsupported for kinds that this build
/// does not have; kInvalid for names that are none.
Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge,
                                                const ProcessRequest& request = {});

/// A proven bound of what the judge measures [s], and which it is.
struct ProvenBound {
  double seconds = 0;
  std::string_view which;
};
ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         const Judge& judge);

}  // namespace emplace::launcher
