#pragma once
/// The memory of each device over a simulated step, when a memory plan makes tensors again and copies them,
/// and what it saves, as text and JSON.

#include <optional>
#include <string>
#include <vector>

#include "launcher/inputs/inputs.h"
#include "launcher/terminal/json_text.h"
#include "placement/measurement.h"
#include "placement/schedule.h"

namespace emplace::launcher {

/// Prices of memory are per GiB [B].
inline constexpr double kGiB = 1 << 30;

/// Thread: one. `devices` must outlive it.
class MemoryOverTime {
 public:
  /// `graph`: that of the step, with the ops of the plan. `without_plan`: the step in which everything is
  /// kept; none: the placement has no memory plan.
  MemoryOverTime(const OpGraph& graph, const DeviceSet& devices, const Measurement& measured,
                 const Schedule& step, std::optional<Measurement> without_plan);

  /// A line of bars per device that holds something; with a plan, lines of bars about what runs again there
  /// and what is copied away and back, and one line about the peak.
  std::string as_text() const;
  /// [{device, available_bytes, peak_at_s, bytes: [the most in each of equal parts of the step]}], with a
  /// plan also recomputed_s and moved_s: [the time in each of these parts].
  Json devices_json() const;
  /// {step_time_s, peak_memory_bytes, s_per_gib} without the plan; null without one.
  Json without_plan_json() const;

 private:
  struct OfDevice {
    double peak_at_s = 0;
    std::vector<std::int64_t> bytes;  ///< The most in each part of the step [B].
    /// The time in each part of the step of ops that run again there, and of copies of its tensors that wait
    /// elsewhere [s].
    std::vector<double> again_s, moved_s;
  };
  /// The device whose peak is lowered the most.
  std::size_t most_lowered() const;
  /// What the lowered peak costs [s/GiB].
  double price() const;

  const DeviceSet& devices_;
  const Measurement measured_;
  const std::optional<Measurement> without_plan_;
  std::vector<OfDevice> of_;  // [devices]
};

}  // namespace emplace::launcher
