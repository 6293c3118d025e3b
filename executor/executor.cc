#include "executor/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace emplace {

Result<Unit> check_devices(std::span<const DeviceId> placement, std::size_t ops, std::size_t devices) {
  if (placement.size() != ops)
    return invalid("placement", fmt::format("has {} ops, but the graph has {}", placement.size(), ops));
  std::uint8_t most = 0;  // No branch per op: searches check every placement.
  for (const DeviceId device : placement) most = std::max(most, static_cast<std::uint8_t>(device));
  if (!placement.empty() && most >= devices) return invalid("placement", "device out of range");
  return Unit{};
}

}  // namespace emplace
