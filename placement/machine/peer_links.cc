#include "placement/machine/peer_links.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "placement/machine/catalogue.h"

namespace emplace {

PeerLinks::PeerLinks(const DeviceSet& devices, DeviceId device) {
  const Profile& own = devices[device].profile;
  const auto add = [&](const Link& link) { links_.push_back({link.name, link.bytes_per_s, link.latency_s}); };
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto peer = static_cast<DeviceId>(d);
    if (peer != device && devices[peer].profile.kind == own.kind) add(devices.link(device, peer));
  }
  if (links_.empty())
    if (const CatalogueDevice* const known = known_device(own.name))
      add(known_link(known->host_link)->link_of(own.cost_version));
  std::ranges::sort(links_, std::greater{}, [](const PeerLink& link) {
    return std::tuple{link.bytes_per_s, -link.latency_s, link.name};
  });
}

PeerLink PeerLinks::of(double gpus) const {
  if (links_.empty()) return {};
  const double peers = std::clamp(gpus - 1, 1.0, static_cast<double>(links_.size()));
  return links_[static_cast<std::size_t>(peers) - 1];
}

}  // namespace emplace
