#pragma once
/// The links that the collectives of a device use.

#include <vector>

#include "base/ids.h"
#include "placement/costs/collective_model.h"
#include "placement/machine/device.h"

namespace emplace {

/// The links of a device to its peers: the other devices of its kind, or, where it has none, another one of
/// the catalogue beside it in its host. A collective runs on a device and its nearest peers, and is as fast
/// as the slowest of their links. A plain value.
class PeerLinks {
 public:
  PeerLinks() = default;
  PeerLinks(const DeviceSet& devices, DeviceId device);
  /// The slowest link that a collective of `gpus` uses; with fewer peers than that, the slowest there is. Its
  /// rate is 0 if no link is known: the device has no peer and is not of the catalogue.
  PeerLink of(double gpus) const;
  bool operator==(const PeerLinks&) const = default;

 private:
  std::vector<PeerLink> links_;  // The fastest first.
};

}  // namespace emplace
