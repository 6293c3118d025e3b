#include "placement/machine/transfer_table.h"

#include <algorithm>
#include <limits>

namespace emplace {

TransferTable::TransferTable(const DeviceSet& devices) : num_devices_{devices.size()} {
  for (std::size_t s = 0; s < num_devices_; ++s) {
    for (std::size_t t = 0; t < num_devices_; ++t) {
      // The diagonal of the links is unspecified.
      const Link link = s == t ? Link{.bytes_per_s = std::numeric_limits<double>::infinity()}
                               : devices.link(static_cast<DeviceId>(s), static_cast<DeviceId>(t));
      rates_.push_back({link.latency_s, link.bytes_per_s});
      lines_.push_back({link.latency_s * 1e9, 1e9 / link.bytes_per_s});
    }
  }
}

TransferLine TransferTable::mean_line(std::span<const DeviceId> devices) const {
  TransferLine mean;
  double pairs = 0;
  for (const DeviceId source : devices) {
    for (const DeviceId target : devices) {
      if (source == target) continue;
      mean.latency_ns += line(source, target).latency_ns;
      mean.ns_per_byte += line(source, target).ns_per_byte;
      ++pairs;
    }
  }
  mean.latency_ns /= std::max(1.0, pairs);
  mean.ns_per_byte /= std::max(1.0, pairs);
  return mean;
}

}  // namespace emplace
