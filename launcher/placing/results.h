#pragma once
/// Results of a placement that several commands print, as text and as JSON (INTERFACE.md, "JSON results").

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "executor/executor.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/command.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/progress_view.h"
#include "launcher/terminal/stop_signal.h"
#include "placement/machine/cost_trust.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/strategy.h"
#include "solver/method.h"

namespace emplace::launcher {

/// Returns why a measurement is not valid: its failure, or "gpu:0 needs 3.04 GiB and has 2.50 GiB". Empty if
/// it is valid.
std::string misfit(const Measurement& measured, const DeviceSet& devices);

/// Joins notes into one line.
std::string joined(const std::vector<std::string>& notes);

/// Returns a measurement as JSON: step_time_s (null if it does not fit), valid, reason?, peak_memory_bytes,
/// busy_s, bytes_moved, executor, label, samples_s; for real executors spread {median_s, mad_s, min_s, max_s}
/// and synthetic_share; objective, objective_value (in the unit of the graph's file; null if it does not
/// fit). `stand_ins`: devices that CPU cores stood in for.
Json measured_json(const Measurement& measured, const Inputs& inputs, std::string_view executor,
                   std::span<const DeviceId> stand_ins = {});

/// The costs behind the step of a placement; nothing if it is empty, or if the objective is no step time.
std::optional<StepCosts> costs_of(const Inputs& inputs, const Placement& placement);
/// Adds what the graph's reader assumed: `assumed` (sentences) and `uncounted`, the ops of unknown work as
/// {type, ops, bytes, share, bytes_share}; both shares are of the bytes that all ops move.
void add_assumptions(Json& json, const OpGraph& graph);

/// Returns a measurement as text: the objective's value, then a line per device. `costs`: those of a
/// simulated step.
std::string measured_text(const Measurement& measured, const Inputs& inputs,
                          std::span<const DeviceId> stand_ins = {},
                          const std::optional<StepCosts>& costs = {});

/// What several micro-batches make of a placement.
struct PipelineFacts {
  Strategy strategy;
  std::vector<std::vector<std::string>> groups;  ///< [replicas] Names of its devices; empty: one copy.
  std::size_t stages = 0;                        ///< Parts of the forward pass that run without interruption.
  double busy_share = 0;     ///< Mean over the devices that run anything, of the time that they run it.
  double samples_per_s = 0;  ///< 0 if the graph does not state its batch.
};
/// Nothing for one copy of one batch. @pre the placement was measured.
std::optional<PipelineFacts> pipeline_facts(const Inputs& inputs, const Placement& placement,
                                            const Measurement& measured);
/// Adds `strategy` {micro_batches, replicas, stages, shards, schedule, groups?, shares?}, `busy_share` and
/// `samples_per_s`
/// (null if unknown).
void add_pipeline(Json& json, const std::optional<PipelineFacts>& facts);
/// "strategy   8 micro-batches in 4 stages, 1f1b; devices are busy for 72 %, 12.5 samples/s" and a line
/// break; empty without facts.
std::string pipeline_line(const std::optional<PipelineFacts>& facts);

/// The fastest device to run the whole graph on.
struct SingleBest {
  DeviceId device{};
  double step_time_s = 0;
};
/// Returns the fastest valid placement of the whole graph on one device, if there is one.
Result<std::optional<SingleBest>> best_single_device(const Inputs& inputs, Executor& executor);
/// Returns a warning if `step_time_s` is above that of `single`; empty otherwise.
std::string slower_than_single(double step_time_s, const std::optional<SingleBest>& single,
                               const DeviceSet& devices);

/// An executor that shows a method's progress and stops it (kRunFailed) when a signal arrives.
class WatchedExecutor final : public Executor {
 public:
  /// `budget_s`: 0 if there is no limit. `bound_s`: a proven lower bound of the objective [s]; 0: unknown.
  WatchedExecutor(Executor& executor, ProgressView& view, const StopSignal& stop, double budget_s,
                  double bound_s)
      : executor_{executor}, view_{view}, stop_{stop} {
    const MutexLock lock{mutex_};
    shown_.budget_s = budget_s;
    shown_.bound_s = bound_s;
  }
  /// Starts progress of a method, shown as `what`, e.g. "random (3 of 6)". With `polls`, the method itself
  /// polls stopped() and ends with its best result, so measure() never fails because of a signal.
  void start(std::string what, bool polls = false);
  /// Records the objective of a placement that was measured elsewhere. Any thread.
  void record_value(double seconds);
  /// Redraws the progress view if due; returns true once a signal has arrived.
  bool stopped();
  std::string_view kind() const override { return executor_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

 private:
  Executor& executor_;
  ProgressView& view_;
  const StopSignal& stop_;
  Mutex mutex_;  // Portfolios report from all of their threads.
  ProgressFacts shown_ EMPLACE_GUARDED_BY(mutex_);
  bool polls_ EMPLACE_GUARDED_BY(mutex_) = false;
  std::uint64_t evaluations_ = 0;
};

/// Returns the exit status after a clean stop by `signal`.
ExitStatus stopped_by(int signal);

}  // namespace emplace::launcher
