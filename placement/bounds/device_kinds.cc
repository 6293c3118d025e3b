#include "placement/bounds/device_kinds.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

namespace emplace {
namespace {

constexpr std::int64_t kEnough = std::int64_t{1}
                                 << 54;  // 256 of these can be summed; no graph has this much state.

}  // namespace

DeviceKinds device_kinds(const DeviceSet& devices, const std::vector<DeviceMask>& choices,
                         const CostTable& costs) {
  // Membership of each device in the distinct choices: in [devices, choices].
  std::unordered_map<DeviceMask, std::size_t> number;
  for (const DeviceMask& choice : choices) number.emplace(choice, number.size());
  std::vector<std::vector<bool>> in(devices.size(), std::vector<bool>(number.size()));
  for (const auto& [choice, i] : number) {
    for (std::size_t d = 0; d < devices.size(); ++d) in[d][i] = choice.test(d);
  }
  DeviceKinds kinds;
  std::vector<std::size_t>& kind_of = kinds.of_device;
  kind_of.resize(devices.size());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto device = static_cast<DeviceId>(d);
    std::size_t k = 0;
    for (; k < kinds.size(); ++k) {
      if (costs.row_of(kinds.example[k]) == costs.row_of(device) && in[index(kinds.example[k])] == in[d])
        break;
    }
    if (k == kinds.size()) {
      kinds.example.push_back(device);
      kinds.count.push_back(0);
      kinds.memory_bytes.push_back(0);
    }
    ++kinds.count[k];
    kinds.memory_bytes[k] += std::min(devices[device].memory_bytes, kEnough);
    kind_of[d] = k;
  }
  const std::size_t size = kinds.size();
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
      TransferLine& fastest = kinds.fastest[kind_of[s] * size + kind_of[t]];
      fastest.latency_ns = std::min(fastest.latency_ns, line.latency_ns);
      fastest.ns_per_byte = std::min(fastest.ns_per_byte, line.ns_per_byte);
    }
  }
  return kinds;
}

}  // namespace emplace
