#pragma once
/// The memory of each device over a simulated step, and what a memory plan saves, as text and JSON.

#include <optional>
#include <string>
#include <vector>

#include "launcher/inputs/inputs.h"
#include "launcher/terminal/json_text.h"
#include "placement/measurement.h"
#include "placement/schedule.h"

namespace emplace::launcher {

/// Thread: one. `devices` must outlive it.
class MemoryOverTime {
 public:
  /// `without_plan`: the step in which everything is kept; none: the placement has no memory plan.
  MemoryOverTime(const DeviceSet& devices, const Measurement& measured, const Schedule& step,
                 std::optional<Measurement> without_plan);

  /// A line of bars per device that holds something, and one about the plan.
  std::string as_text() const;
  /// [{device, available_bytes, peak_at_s, bytes: [the most in each of equal parts of the step]}].
  Json devices_json() const;
  /// {step_time_s, peak_memory_bytes, s_per_gib} without the plan; null without one.
  Json without_plan_json() const;

 private:
  struct OfDevice {
    double peak_at_s = 0;
    std::vector<std::int64_t> bytes;  ///< The most in each part of the step [B].
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
