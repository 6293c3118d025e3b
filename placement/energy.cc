#include "placement/energy.h"

#include <limits>

namespace emplace {

std::int64_t smallest_memory(const DeviceSet& devices) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::int64_t bytes = devices[static_cast<DeviceId>(d)].memory_bytes;
    if (bytes > 0) smallest = std::min(smallest, bytes);
  }
  return smallest;
}

}  // namespace emplace
