#include "placement/strategy.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/text/words.h"

namespace emplace {

namespace {

/// The GPUs, or the CPUs where there is no GPU.
std::vector<DeviceId> used_devices(const DeviceSet& devices) {
  std::vector<DeviceId> used;
  for (const bool cpus : {false, true}) {
    if (!used.empty()) break;
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (devices.is_cpu(static_cast<DeviceId>(d)) == cpus) used.push_back(static_cast<DeviceId>(d));
  }
  return used;
}

}  // namespace

std::string text_of_micro_batches(const Strategy& strategy) {
  return strategy.micro_batches == kAutoMicroBatches ? "auto" : std::to_string(strategy.micro_batches);
}

std::uint32_t micro_batches_for(const DeviceSet& devices) {
  return 4 * static_cast<std::uint32_t>(used_devices(devices).size());
}

Result<std::vector<std::vector<DeviceId>>> consecutive_groups(const DeviceSet& devices,
                                                              std::uint32_t replicas) {
  const std::vector<DeviceId> used = used_devices(devices);
  if (replicas == 0 || used.size() % replicas != 0)
    return invalid(fmt::format("--replicas {}", replicas),
                   fmt::format("{} devices cannot be divided among them", used.size()),
                   "use a divisor of the number of devices");
  const auto size = static_cast<std::ptrdiff_t>(used.size() / replicas);
  std::vector<std::vector<DeviceId>> groups;
  for (auto at = used.begin(); at != used.end(); at += size) groups.emplace_back(at, at + size);
  return groups;
}

Result<Unit> check_strategy(const Strategy& strategy, const DeviceSet& devices) {
  const std::uint32_t micro_batches = strategy.micro_batches, replicas = strategy.num_replicas();
  const std::string option = "--micro-batches " + text_of_micro_batches(strategy);
  if (micro_batches == 0 || micro_batches > kMostMicroBatches)
    return invalid(option, "is out of range", fmt::format("use 1 to {}", kMostMicroBatches));
  if (strategy.replicas.empty()) return Unit{};
  if (strategy.shares.empty() && micro_batches % replicas != 0)
    return invalid(option, fmt::format("cannot be divided among {} replicas", replicas),
                   "use a multiple of their number");
  if (!strategy.shares.empty() &&
      (strategy.shares.size() != replicas || std::ranges::count(strategy.shares, 0u) > 0 ||
       std::accumulate(strategy.shares.begin(), strategy.shares.end(), std::uint64_t{0}) != micro_batches))
    return invalid("a strategy", fmt::format("has shares that are not {} numbers above 0 whose sum is {}",
                                             replicas, micro_batches));
  DeviceMask used;
  for (const std::vector<DeviceId>& group : strategy.replicas) {
    if (group.empty() || group.size() != strategy.replicas.front().size())
      return invalid("a strategy", "has replicas of different numbers of devices");
    for (const DeviceId device : group) {
      if (index(device) >= devices.size() || used.test(index(device)))
        return invalid("a strategy", "has a device that is in two replicas, or not in the machine");
      used.set(index(device));
    }
  }
  return Unit{};
}

}  // namespace emplace
