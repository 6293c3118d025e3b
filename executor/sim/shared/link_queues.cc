#include "executor/sim/shared/link_queues.h"

#include <bitset>

namespace emplace::simulated {

LinkRoutes::LinkRoutes(const DeviceSet& devices) : num_devices_{devices.size()} {
  std::vector<std::bitset<kMaxDevices>> members;
  for (const SharedLink& link : devices.shared()) {
    std::bitset<kMaxDevices>& own = members.emplace_back();
    for (const DeviceId device : link.devices) own.set(index(device));
    capacity_.insert(capacity_.end(), 2, link.engines);
  }
  for (std::size_t source = 0; source < num_devices_; ++source) {
    for (std::size_t target = 0; target < num_devices_; ++target) {
      first_.push_back(static_cast<std::uint32_t>(resources_.size()));
      for (std::size_t s = 0; s < members.size(); ++s) {
        if (members[s][source] == members[s][target]) continue;
        resources_.push_back(static_cast<std::uint16_t>(2 * s + (members[s][source] ? 0 : 1)));
      }
    }
  }
  first_.push_back(static_cast<std::uint32_t>(resources_.size()));
}

}  // namespace emplace::simulated
