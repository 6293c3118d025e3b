#include "placement/bounds/device_kinds.h"

#include <algorithm>
#include <limits>

#include "placement/machine/device_classes.h"

namespace emplace {
namespace {

constexpr std::int64_t kEnough = std::int64_t{1}
                                 << 54;  // 256 of these can be summed; no graph has this much state.

}  // namespace

DeviceKinds device_kinds(const DeviceSet& devices, const std::vector<DeviceMask>& choices,
                         const CostTable& costs) {
  const DeviceClasses classes{devices, costs, {.choices = choices}};
  const std::size_t size = classes.size();
  DeviceKinds kinds;
  for (std::size_t k = 0; k < size; ++k) kinds.example.push_back(classes.first(k));
  kinds.count.resize(size);
  kinds.memory_bytes.resize(size);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto device = static_cast<DeviceId>(d);
    const std::size_t kind = classes.of(device);
    kinds.of_device.push_back(kind);
    ++kinds.count[kind];
    kinds.memory_bytes[kind] += std::min(devices[device].memory_bytes, kEnough);
  }
  kinds.allowed.reserve(choices.size());
  for (const DeviceMask& choice : choices) {
    std::vector<bool> allowed(size);
    for (std::size_t k = 0; k < size; ++k) allowed[k] = choice.test(index(kinds.example[k]));
    kinds.allowed.push_back(std::move(allowed));
  }
  // Latency and bandwidth are minimised separately: no real pair of devices is faster than this virtual link.
  constexpr double kNoPair = std::numeric_limits<double>::infinity();
  const TransferTable transfers{devices};
  kinds.fastest.assign(size * size, {kNoPair, kNoPair});
  for (std::size_t s = 0; s < devices.size(); ++s) {
    for (std::size_t t = 0; t < devices.size(); ++t) {
      if (s == t) continue;
      const TransferLine& line = transfers.line(static_cast<DeviceId>(s), static_cast<DeviceId>(t));
      TransferLine& fastest = kinds.fastest[kinds.of_device[s] * size + kinds.of_device[t]];
      fastest.latency_ns = std::min(fastest.latency_ns, line.latency_ns);
      fastest.ns_per_byte = std::min(fastest.ns_per_byte, line.ns_per_byte);
    }
  }
  return kinds;
}

}  // namespace emplace
