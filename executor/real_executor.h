#pragma once
/// What an executor of real devices can do beyond measuring: show when things happened, check what it
/// computed, tell what each op costs. docs/reference/measurement.md defines how it takes time.

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

/// How a step is timed: as the papers did, warm-up first.
struct TimingOptions {
  enum class Statistic : std::uint8_t { kMedian, kMean };
  std::uint32_t warmups = 5;        ///< Steps that do not count.
  std::uint32_t samples = 5;        ///< Steps that do, at least 1.
  std::uint32_t most_samples = 15;  ///< Taken where the spread of `samples` is above 5 %.
  Statistic statistic = Statistic::kMedian;
  bool operator==(const TimingOptions&) const = default;

  void list(Settings& settings);
};
constexpr auto enum_words(TimingOptions::Statistic) {
  return EnumWords{"statistic", std::array{EnumWord{TimingOptions::Statistic::kMedian, "median"},
                                           EnumWord{TimingOptions::Statistic::kMean, "mean"}}};
}
inline void TimingOptions::list(Settings& settings) {
  settings.add("warmups", warmups, "Real devices: steps before the timed ones. Papers: 5.");
  settings.add(
      "samples", samples, at_least(1),
      "Real devices: timed steps; up to three times as many where they spread by more than 5 %. Papers: 5.");
  settings.add("statistic", statistic, "Real devices: what becomes the step time.");
}

struct RealOptions {
  TimingOptions timing;
  std::uint64_t seed = 0;       ///< Of the values that state begins with.
  bool allow_synthetic = true;  ///< Ops without a kernel are stood in for; else kUnsupported names the first.
  /// Counted up with every step, and every op of a profile, so that a hang is told from a long measurement.
  /// Null: nobody looks.
  std::atomic<std::uint64_t>* progress = nullptr;
};

/// What comparing a run over several devices with one on a single device found.
struct Verification {
  bool identical = false;
  std::size_t compared = 0;      ///< Tensors that no other op reads, and state, compared byte for byte.
  std::size_t skipped = 0;       ///< Of these, left out: downstream of an op that was stood in for.
  std::string first_difference;  ///< Name of the op whose output differs; empty if none.
};

/// Cost of one kernel of the graph on one device, alone.
struct OpCost {
  OpId op{};
  double us = 0;      ///< [us] median
  double mad_us = 0;  ///< [us] median absolute deviation
  std::uint32_t samples = 0;
  bool synthetic = false;
};
struct LinkCost {
  DeviceId source{}, target{};
  double latency_s = 0;    ///< [s]
  double bytes_per_s = 0;  ///< [B/s]
};
/// What calibration measures: costs of ops by device, links, overhead of a task.
struct ExecutorProfile {
  std::vector<std::vector<OpCost>> ops;  ///< [devices][kernels of the graph]
  std::vector<LinkCost> links;           ///< [pairs]
  std::vector<double> task_overhead_us;  ///< [devices] Time of a task that is not its kernel's.
  double step_time_s = 0;                ///< [s] of the whole graph on the first device, for comparison.
};

/// Thread: one at a time, as Executor.
class RealExecutor : public Executor {
 public:
  /// A measurement and, from one further step that is not timed, when everything happened.
  virtual Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) = 0;
  /// Runs one step as placed and one on a single device from the same state, and compares. Errors: kRunFailed
  /// if either does not run.
  virtual Result<Verification> verify(std::span<const DeviceId> placement) = 0;
  /// Errors: kRunFailed if the graph does not fit on one device.
  virtual Result<ExecutorProfile> profile() = 0;
  /// Kinds of ops of the graph that have no kernel here, sorted; they are stood in for.
  virtual std::vector<std::string> synthetic_types() const = 0;
};

}  // namespace emplace
