#pragma once
/// Additional functions of executors on real devices: traces, verification of results, cost of each op.
/// docs/reference/measurement.md defines the timing.

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/settings.h"
#include "executor/executor.h"
#include "placement/measurement.h"
#include "placement/schedule.h"

namespace emplace {

/// Timing of a step: warm-up steps, then timed ones, as in the papers.
struct TimingOptions {
  enum class Statistic : std::uint8_t { kMedian, kMean };
  std::uint32_t warmups = 5;        ///< Number of untimed steps.
  std::uint32_t samples = 5;        ///< Number of timed steps, at least 1.
  std::uint32_t most_samples = 15;  ///< Maximum number of timed steps if `samples` spread by more than 5 %.
  Statistic statistic = Statistic::kMedian;
  bool capture = true;  ///< CUDA: replay a step as one graph instead of enqueuing each of its kernels.
  bool tune = true;     ///< CUDA: take the fastest of cuDNN's engines in trial runs instead of the first one.
  double stop_ratio = 0;  ///< Steps of this many times the best step of the executor end early; 0: none does.
  bool operator==(const TimingOptions&) const = default;

  void list(Settings& settings);
};
constexpr auto enum_words(TimingOptions::Statistic) {
  return EnumWords{"statistic", std::array{EnumWord{TimingOptions::Statistic::kMedian, "median"},
                                           EnumWord{TimingOptions::Statistic::kMean, "mean"}}};
}
inline void TimingOptions::list(Settings& settings) {
  settings.add("warmups", warmups, "Number of warm-up steps on real devices. Papers: 5.");
  settings.add("samples", samples, at_least(1),
               "Number of timed steps on real devices; up to three times as many if they spread by more than "
               "5 %. Papers: 5.");
  settings.add("statistic", statistic,
               "Statistic of the timed steps that becomes the step time on real devices.");
  settings.add(
      "capture", capture,
      "CUDA: captures the step of a placement as one graph and replays it with one launch, so that the "
      "host does not limit it; false: enqueues every kernel of every step.");
  settings.add(
      "tune", tune,
      "CUDA: times the first three engines that cuDNN suggests for each convolution when the executor "
      "starts and takes the fastest; false: takes the first.");
  settings.add(
      "stop_ratio", stop_ratio, at_least(0),
      "Stops measuring a placement whose first two steps both take at least this many times the best "
      "step time of the executor on real devices; the second step is its time. 0: never.");
}

struct RealOptions {
  TimingOptions timing;
  std::uint64_t seed = 0;  ///< Seed of the initial values of state.
  /// True: ops without a kernel are replaced by synthetic work. False: kUnsupported with the first such op.
  bool allow_synthetic = true;
  /// Incremented with every step, and every op of a profile. A watchdog uses it to distinguish a hang from a
  /// long measurement. Null: no watchdog.
  std::atomic<std::uint64_t>* progress = nullptr;
};

/// Result of comparing a run on several devices with one on a single device.
struct Verification {
  bool identical = false;
  std::size_t compared = 0;      ///< Number of tensors without readers and states, compared byte for byte.
  std::size_t skipped = 0;       ///< Number of these left out because they depend on a synthetic op.
  std::string first_difference;  ///< Name of the op whose output differs; empty if all are equal.
};

/// Cost of one kernel of the graph on one device, measured in isolation.
struct OpCost {
  OpId op{};
  double us = 0;      ///< Cost within a step: the median [us].
  double mad_us = 0;  ///< Median absolute deviation [us].
  std::uint32_t samples = 0;
  bool synthetic = false;
  /// Medians of calls in a row that find their operands in a cache, and that find them in memory [us]; both 0
  /// unless calls are timed so. `us` is between them then.
  double hot_us = 0, cold_us = 0;
};
struct LinkCost {
  DeviceId source{}, target{};
  double latency_s = 0;    ///< Latency [s].
  double bytes_per_s = 0;  ///< Bandwidth [B/s].
};
/// Result of calibration: cost of ops by device, links, overhead of a task.
struct ExecutorProfile {
  std::vector<std::vector<OpCost>> ops;  ///< [devices][kernels of the graph]
  std::vector<LinkCost> links;           ///< [pairs]
  std::vector<double> task_overhead_us;  ///< [devices] Time of a task outside its kernel.
  /// [devices] Time of the host to enqueue a task of a step that is not replayed as a whole [us]. Empty: no
  /// host enqueues tasks.
  std::vector<double> task_host_us;
  /// [devices] Factor on the time of the graph on a device while all other devices of the same hardware run
  /// it, too; 0: not measured. Empty: no devices share hardware.
  std::vector<double> corun;
  double step_time_s = 0;  ///< Step time of the whole graph on the first device [s], for comparison.
};

/// Thread: one at a time, as Executor.
class RealExecutor : public Executor {
 public:
  /// Measures, then records a schedule in one further, untimed step.
  virtual Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) = 0;
  /// Runs one step as placed and one on a single device from the same state, and compares the results.
  /// Errors: kRunFailed if either step fails.
  virtual Result<Verification> verify(std::span<const DeviceId> placement) = 0;
  /// Errors: kRunFailed if the graph does not fit on one device.
  virtual Result<ExecutorProfile> profile() = 0;
  /// Announces the placement that is probably measured after the next one. An executor may prepare it while
  /// the next one is measured, if that does not disturb it. Ignores a placement that does not match the
  /// graph.
  virtual void expect(std::span<const DeviceId> /*placement*/) {}
  /// Op types of the graph without a kernel here, sorted; synthetic work replaces them.
  virtual std::vector<std::string> synthetic_types() const = 0;
  /// Caveats that a reader of the results so far must know, one line each.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Devices of another kind that CPU cores stand in for.
  virtual std::vector<DeviceId> stand_ins() const { return {}; }
};

}  // namespace emplace
