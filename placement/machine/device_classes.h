#pragma once
/// Classes of devices that are alike, so that a placement may exchange them, or a computation needs only one
/// of them. What must be equal depends on the purpose; each caller states it.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/machine/device_mask.h"

namespace emplace {

/// What devices of one class have in common.
struct DeviceLikeness {
  enum class Times : std::uint8_t {
    kProfile,  ///< Equal profiles, as in a row of the CostTable.
    kOps,      ///< Equal times of all ops of the graph, whatever the profiles.
  };
  enum class Memory : std::uint8_t {
    kAny,
    kBytes,  ///< Equal bytes.
    kFloat,  ///< Equal as float32: what the features of a policy contain.
  };

  Times times = Times::kProfile;
  Memory memory = Memory::kAny;
  bool host = false;  ///< The same host.
  /// Equal links, in each direction, to every other device and to one another: no transfer takes another time
  /// if two devices of a class are exchanged.
  bool links = false;
  bool engines = false;                      ///< As many copy engines, behind the same shared links.
  std::span<const DeviceMask> choices = {};  ///< Each contains all devices of a class or none.
};

/// The classes of the devices of a machine, in the order of their first devices. Immutable; any thread.
class DeviceClasses {
 public:
  /// `costs` is that of the machine. The arguments need not outlive it.
  DeviceClasses(const DeviceSet& devices, const CostTable& costs, const DeviceLikeness& likeness);
  std::size_t size() const { return first_.size(); }
  std::size_t num_devices() const { return class_of_.size(); }
  std::size_t of(DeviceId device) const { return class_of_[index(device)]; }
  /// The device of a class with the lowest id.
  DeviceId first(std::size_t device_class) const { return first_[device_class]; }
  bool are_alike(DeviceId a, DeviceId b) const { return of(a) == of(b); }

 private:
  std::vector<std::size_t> class_of_;  // [devices]
  std::vector<DeviceId> first_;        // [classes]
};

}  // namespace emplace
