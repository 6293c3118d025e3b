#include "launcher/settings/learning.h"

#include <algorithm>
#include <limits>

#include "heuristics/method.h"

namespace emplace::launcher {
namespace {

/// Returns the memory [10^9 B] of the smallest GPU, or of the smallest device if there is no GPU.
double smallest_memory_gb(const DeviceSet& devices) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const DeviceId device : fast_devices(devices))
    smallest = std::min(smallest, devices[device].memory_bytes);
  return static_cast<double>(smallest) * 1e-9;
}

}  // namespace

actors::ScoringOptions scoring_options(const RunConfig& config, const DeviceSet& devices) {
  actors::ScoringOptions options = config.reward;
  options.reward.penalty_per_gb += config.reward.penalty_per_memory / smallest_memory_gb(devices);
  options.baseline.failing_signal = options.reward.failing_signal;
  return options;
}

}  // namespace emplace::launcher
