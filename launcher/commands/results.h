#pragma once
/// What several commands say about a placement, in words and in JSON (INTERFACE.md, "JSON results").

#include <optional>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "heuristics/method.h"
#include "launcher/command.h"
#include "launcher/console.h"
#include "launcher/session/stop_signal.h"
#include "launcher/settings/inputs.h"
#include "launcher/settings/json_text.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"

namespace emplace::launcher {

/// Why a measurement is not valid: its failure, or "gpu:0 needs 3.04 GiB and has 2.50 GiB". Empty if it is
/// valid.
std::string misfit(const Measurement& measured, const DeviceSet& devices);

/// How timed steps lie around their median.
struct Spread {
  double median_s = 0, mad_s = 0;  ///< Median, and median absolute deviation from it.
  double min_s = 0, max_s = 0;
  std::size_t long_tail = 0;  ///< Steps that took more than twice the median.
  /// More spread than a step time can be trusted with: MAD above 5 % of the median.
  bool noisy() const { return mad_s > 0.05 * median_s; }
};
/// @pre not empty.
Spread spread_of(std::vector<double> samples_s);

/// What must be said with an answer, as one line.
std::string joined(const std::vector<std::string>& notes);

/// step_time_s (null if it does not fit), valid, reason?, peak_memory_bytes, busy_s, bytes_moved, executor,
/// label, samples_s, spread {median_s, mad_s, min_s, max_s} and synthetic_share (of real executors),
/// objective, objective_value (in the unit of the graph's file; null if it does not fit).
Json measured_json(const Measurement& measured, const Inputs& inputs, std::string_view executor);

/// The same for people: the objective's value, then a line per device.
std::string measured_text(const Measurement& measured, const Inputs& inputs,
                          std::string_view executor = "sim");

/// "gpu:0 on a CPU core" for each device that an executor of this kind only stands in for.
std::vector<std::string> stand_ins(std::string_view executor, const DeviceSet& devices);

/// The fastest valid placement of everything on one device, if there is one.
struct SingleBest {
  DeviceId device{};
  double step_time_s = 0;
};
Result<std::optional<SingleBest>> best_single_device(const Problem& problem, Executor& executor);
/// A warning if `step_time_s` is slower than that; empty otherwise.
std::string slower_than_single(double step_time_s, const std::optional<SingleBest>& single,
                               const DeviceSet& devices);

/// An executor that shows how far a method has come and ends it when a signal arrives (kRunFailed).
class WatchedExecutor final : public Executor {
 public:
  WatchedExecutor(Executor& executor, LiveView& view, const StopSignal& stop)
      : executor_{executor}, view_{view}, stop_{stop} {}
  /// What the view says it is doing: "random (3 of 6)". `asks`: it asks stopped() itself and ends with what
  /// it has, so its measurements go on.
  void begin(std::string what, bool asks = false);
  /// A placement that somebody else measured.
  void saw(double seconds);
  /// Shows what is due; true once a signal has arrived.
  bool stopped();
  std::string_view kind() const override { return executor_.kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

 private:
  Executor& executor_;
  LiveView& view_;
  const StopSignal& stop_;
  std::string what_;
  bool asks_ = false;
  std::uint64_t evaluations_ = 0;
  double best_s_ = 0;  // Of all; 0: none fits yet.
};

/// The status of a process that a signal ended cleanly.
ExitStatus stopped_by(int signal);

}  // namespace emplace::launcher
