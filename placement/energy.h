#pragma once
/// Cost of placements that may need more memory than there is, for searches that pass through them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "placement/machine/device.h"

namespace emplace {

/// Added to log(seconds) for `bytes_over`, the excess of a placement over `memory_bytes`: 0 without excess,
/// else 0.05 and twice the excess as a share of the memory, so that the memory limit is a slope and not a
/// wall.
inline double memory_penalty(std::int64_t bytes_over, std::int64_t memory_bytes) {
  if (bytes_over <= 0) return 0;
  return 0.05 +
         2 * static_cast<double>(bytes_over) / static_cast<double>(std::max<std::int64_t>(1, memory_bytes));
}

/// log(seconds), finite also for 0.
inline double log_seconds(double seconds) { return std::log(std::max(seconds, 1e-12)); }

/// The smallest memory of a device that has any [B].
inline std::int64_t smallest_memory(const DeviceSet& devices) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::int64_t bytes = devices[static_cast<DeviceId>(d)].memory_bytes;
    if (bytes > 0) smallest = std::min(smallest, bytes);
  }
  return smallest;
}

}  // namespace emplace
