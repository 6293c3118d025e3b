#pragma once
/// What one placement cost when it was run, or simulated. docs/reference/measurement.md defines each
/// quantity.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"

namespace emplace {

/// What a step time rests on, so that nothing unmeasured is shown as measured. Numbers are kept: append only.
enum class MeasurementLabel : std::uint8_t {
  kSimulated = 0,
  kMeasured = 1,         ///< Less than 1 % of the time of stand-ins.
  kPartlySynthetic = 2,  ///< Less than 20 %.
  kEmulated = 3,         ///< More, or over links that are slowed down to what the device file says.
};
/// "simulated", "measured", "measured, partly synthetic", "emulated".
constexpr std::string_view label_name(MeasurementLabel label) {
  constexpr std::string_view kNames[]{"simulated", "measured", "measured, partly synthetic", "emulated"};
  return kNames[static_cast<std::size_t>(label) % 4];
}
/// Of what a real executor measured.
constexpr MeasurementLabel measured_label(double synthetic_share, bool shaped_links) {
  if (shaped_links || !(synthetic_share < 0.2)) return MeasurementLabel::kEmulated;
  return synthetic_share < 0.01 ? MeasurementLabel::kMeasured : MeasurementLabel::kPartlySynthetic;
}

struct Measurement {
  /// False: it did not fit, or did not run. In the simulator step_time_s is then what it would have taken
  /// with enough memory; a real executor has none, and says why in `failure`.
  bool valid = false;
  double step_time_s = 0;                ///< [s] end of the last op or transfer of one training step.
  std::vector<std::int64_t> peak_bytes;  ///< [devices] high-water mark of state and live tensors.
  std::vector<double> busy_s;            ///< [devices] time spent in ops.
  std::int64_t bytes_moved = 0;          ///< Over links.
  std::int64_t bytes_over = 0;           ///< Sum over devices of peak above the cap: how far from fitting.
  double synthetic_share = 0;            ///< Share of time of ops that were stood in for; 0 in the simulator.
  std::vector<double> samples_s;         ///< [s] Timed steps in their order; empty in the simulator.
  /// "oom: …", "crashed: …", "timeout: …", "poisoned: …", "failed: …"; empty: it ran, or is simulated.
  std::string failure;
  MeasurementLabel label = MeasurementLabel::kSimulated;

  bool operator==(const Measurement&) const = default;
  EMPLACE_FIELDS(valid, step_time_s, peak_bytes, busy_s, bytes_moved, bytes_over, synthetic_share, samples_s,
                 failure, label)
};

/// What kept it from being valid was memory, and bytes_over says how far it is from fitting; otherwise it did
/// not run at all, and nothing but the failure is known.
inline bool out_of_memory(bool valid, std::string_view failure) {
  return !valid && (failure.empty() || failure.starts_with("oom"));
}

}  // namespace emplace
