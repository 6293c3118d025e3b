#pragma once
/// The cost of one placement, measured or simulated. docs/reference/measurement.md defines each quantity.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"

namespace emplace {

/// The basis of a step time, so that estimates are never shown as measured. Values are stored: append only.
enum class MeasurementLabel : std::uint8_t {
  kSimulated = 0,
  kMeasured = 1,         ///< Synthetic share below 1 %.
  kPartlySynthetic = 2,  ///< Synthetic share below 20 %.
  kEmulated = 3,         ///< Larger synthetic share, or emulated links.
  kTorch = 4,            ///< Measured in PyTorch, whose kernels differ from those of emplace-exec-cpu.
};
constexpr std::size_t kMeasurementLabels = 5;
/// Returns "simulated", "measured", "measured, partly synthetic", "emulated" or "measured in PyTorch".
constexpr std::string_view label_name(MeasurementLabel label) {
  constexpr std::string_view kNames[kMeasurementLabels]{"simulated", "measured", "measured, partly synthetic",
                                                        "emulated", "measured in PyTorch"};
  return kNames[static_cast<std::size_t>(label) % kMeasurementLabels];
}
/// The label of a result of emplace-exec-cpu and emplace-exec-cuda.
constexpr MeasurementLabel measured_label(double synthetic_share, bool shaped_links) {
  if (shaped_links || !(synthetic_share < 0.2)) return MeasurementLabel::kEmulated;
  return synthetic_share < 0.01 ? MeasurementLabel::kMeasured : MeasurementLabel::kPartlySynthetic;
}

struct Measurement {
  /// False if the placement did not fit or did not run. In the simulator step_time_s is then the time with
  /// enough memory; a real executor reports no time and sets `failure`.
  bool valid = false;
  double step_time_s = 0;                ///< End of the last op or transfer of one training step [s].
  std::vector<std::int64_t> peak_bytes;  ///< [devices] High-water mark of state and live tensors.
  std::vector<double> busy_s;            ///< [devices] Time spent in ops [s].
  std::int64_t bytes_moved = 0;          ///< Bytes moved over links.
  std::int64_t bytes_over = 0;           ///< Sum over devices of the peak above the cap: distance from a fit.
  double synthetic_share = 0;     ///< Share of the time in synthetic (stand-in) ops; 0 in the simulator.
  std::vector<double> samples_s;  ///< Timed steps in order [s]; empty in the simulator.
  /// Failure: "oom: …", "crashed: …", "timeout: …", "poisoned: …" or "failed: …"; empty if it ran or is
  /// simulated.
  std::string failure;
  MeasurementLabel label = MeasurementLabel::kSimulated;

  bool operator==(const Measurement&) const = default;
  EMPLACE_FIELDS(valid, step_time_s, peak_bytes, busy_s, bytes_moved, bytes_over, synthetic_share, samples_s,
                 failure, label)
};

/// Returns whether the placement is invalid only because of memory; bytes_over is then meaningful. Otherwise
/// it did not run, and only the failure is known.
inline bool out_of_memory(bool valid, std::string_view failure) {
  return !valid && (failure.empty() || failure.starts_with("oom"));
}

}  // namespace emplace
