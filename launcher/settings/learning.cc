#include "launcher/settings/learning.h"

#include <algorithm>
#include <limits>

#include "placement/energy.h"
#include "solver/method.h"

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

actors::ScoringOptions scoring_options(const RunConfig& config, const actors::Task& task) {
  actors::ScoringOptions options = config.reward;
  options.baseline.failing_signal = options.reward.failing_signal;
  options.baseline.start_measured = measures_start(config);
  for (const actors::TaskGraph& one : task.graphs) {
    actors::GraphMemory& memory = options.memory[one.sha256];
    memory.price.more_per_gb = config.reward.penalty_per_memory / smallest_memory_gb(one.devices);
    memory.price.smallest_memory = smallest_memory(one.devices);
    memory.bytes.clear();
    for (const Device& device : one.devices.devices()) memory.bytes.push_back(device.memory_bytes);
  }
  return options;
}

}  // namespace emplace::launcher
