#include "placement/machine/device_classes.h"

#include <algorithm>
#include <unordered_set>

#include "placement/machine/transfer_table.h"

namespace emplace {
namespace {

/// [devices][sets] Whether a device is in each set.
using Membership = std::vector<std::vector<bool>>;

Membership in_choices(std::size_t devices, std::span<const DeviceMask> choices) {
  const std::unordered_set<DeviceMask> distinct{choices.begin(), choices.end()};
  Membership in(devices);
  for (const DeviceMask& choice : distinct)
    for (std::size_t d = 0; d < devices; ++d) in[d].push_back(choice.test(d));
  return in;
}

Membership behind_shared_links(const DeviceSet& devices) {
  Membership in(devices.size());
  for (const SharedLink& shared : devices.shared())
    for (std::size_t d = 0; d < devices.size(); ++d)
      in[d].push_back(std::ranges::binary_search(shared.devices, static_cast<DeviceId>(d)));
  return in;
}

/// Compares two devices. A device that is like one of a class is like all of it: each condition is an
/// equality of values, and devices whose exchange changes no link can be exchanged one after the other.
class Comparison {
 public:
  Comparison(const DeviceSet& devices, const CostTable& costs, const DeviceLikeness& likeness)
      : devices_{devices},
        costs_{costs},
        likeness_{likeness},
        transfers_{devices},
        choices_{in_choices(devices.size(), likeness.choices)},
        shared_{behind_shared_links(devices)} {}

  bool are_alike(DeviceId a, DeviceId b) const {
    return same_times(a, b) && same_memory(a, b) && choices_[index(a)] == choices_[index(b)] &&
           (!likeness_.host || devices_[a].host == devices_[b].host) &&
           (!likeness_.engines || same_engines(a, b)) && (!likeness_.links || same_links(a, b));
  }

 private:
  bool same_times(DeviceId a, DeviceId b) const {
    if (costs_.row_of(a) == costs_.row_of(b)) return true;
    return likeness_.times == DeviceLikeness::Times::kOps &&
           std::ranges::equal(costs_.row_ns(a), costs_.row_ns(b));
  }
  bool same_memory(DeviceId a, DeviceId b) const {
    const std::int64_t bytes_a = devices_[a].memory_bytes, bytes_b = devices_[b].memory_bytes;
    if (likeness_.memory == DeviceLikeness::Memory::kBytes) return bytes_a == bytes_b;
    return likeness_.memory == DeviceLikeness::Memory::kAny ||
           static_cast<float>(bytes_a) == static_cast<float>(bytes_b);
  }
  bool same_engines(DeviceId a, DeviceId b) const {
    return devices_.engines(a) == devices_.engines(b) && shared_[index(a)] == shared_[index(b)];
  }
  bool same_links(DeviceId a, DeviceId b) const {
    if (transfers_.line(a, b) != transfers_.line(b, a)) return false;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto other = static_cast<DeviceId>(d);
      if (other == a || other == b) continue;
      if (transfers_.line(a, other) != transfers_.line(b, other) ||
          transfers_.line(other, a) != transfers_.line(other, b))
        return false;
    }
    return true;
  }

  const DeviceSet& devices_;
  const CostTable& costs_;
  const DeviceLikeness& likeness_;
  const TransferTable transfers_;
  const Membership choices_, shared_;
};

}  // namespace

DeviceClasses::DeviceClasses(const DeviceSet& devices, const CostTable& costs,
                             const DeviceLikeness& likeness) {
  const Comparison comparison{devices, costs, likeness};
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto device = static_cast<DeviceId>(d);
    const auto found =
        std::ranges::find_if(first_, [&](DeviceId first) { return comparison.are_alike(first, device); });
    class_of_.push_back(static_cast<std::size_t>(found - first_.begin()));
    if (found == first_.end()) first_.push_back(device);
  }
}

}  // namespace emplace
