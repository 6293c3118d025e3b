#include "executor/executor.h"

#include <string>

namespace emplace {

Result<Unit> check_devices(std::span<const DeviceId> placement, std::size_t ops, std::size_t devices) {
  if (placement.size() != ops)
    return invalid("placement",
                   "has " + std::to_string(placement.size()) + " ops, the graph " + std::to_string(ops));
  for (const DeviceId device : placement)
    if (index(device) >= devices) return invalid("placement", "names a device that does not exist");
  return Unit{};
}

}  // namespace emplace
