#include "executor/executor.h"

#include <fmt/core.h>

#include <string>

namespace emplace {

Result<Unit> check_devices(std::span<const DeviceId> placement, std::size_t ops, std::size_t devices) {
  if (placement.size() != ops)
    return invalid("placement", fmt::format("has {} ops, but the graph has {}", placement.size(), ops));
  for (const DeviceId device : placement)
    if (index(device) >= devices) return invalid("placement", "device out of range");
  return Unit{};
}

}  // namespace emplace
