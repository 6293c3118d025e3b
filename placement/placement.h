#pragma once
/// A placement assigns a device to each op; constraints restrict it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/applied_rules.h"
#include "placement/machine/device.h"
#include "placement/machine/device_mask.h"

namespace emplace {

/// [ops] The device of each op, one byte each; the form used in messages and by the simulator.
using Placement = std::vector<DeviceId>;

/// Constraints on every placement of a graph on a device set. Ops that must share a device form a class; each
/// class may use the devices that all its members allow. Thread: a plain value.
class Constraints {
 public:
  /// Combines the graph's `colocate` and `devices` with a user's rules. Unless `by_bytes`, a class that
  /// neither the graph nor a pin or allow rule gives devices stays on those that time its ops
  /// (timed_devices()), if there are any. Errors (kInvalid): an unknown device name; a class without a common
  /// device, naming two ops and the conflicting rules.
  static Result<Constraints> make(const OpGraph& graph, const DeviceSet& devices,
                                  const AppliedRules& rules = {}, bool by_bytes = false);

  std::size_t num_classes() const { return allowed_.size(); }
  std::uint32_t class_of(OpId op) const { return class_of_[index(op)]; }
  std::span<const std::uint32_t> classes() const { return class_of_; }  ///< [ops]
  const DeviceMask& allowed(std::uint32_t colocation_class) const { return allowed_[colocation_class]; }
  bool allows(OpId op, DeviceId device) const { return allowed_[class_of(op)].test(index(device)); }

  /// Makes a placement valid in place: members of a class follow their lowest op; a forbidden device becomes
  /// the lowest-numbered allowed one. Returns the number of ops moved. @pre one entry per op.
  std::size_t repair(Placement& placement) const;
  /// The same on the part of a machine that has these devices, in their order. Errors (kInvalid): an op may
  /// run on none of them.
  Result<Constraints> part(std::span<const DeviceId> devices) const;
  /// Errors (kInvalid), with the op: wrong length, a device out of range, a forbidden device, a class on
  /// several devices.
  Result<Unit> check(const OpGraph& graph, const DeviceSet& devices,
                     std::span<const DeviceId> placement) const;

 private:
  void keep_to(const std::vector<DeviceMask>& timed, const OpGraph& graph, const AppliedRules& rules);

  std::vector<std::uint32_t> class_of_;
  std::vector<DeviceMask> allowed_;
};

/// One line about ops whose time was not measured on some devices and whose work is unknown: where they may
/// not be for that, and where their time is estimated from their bytes. Empty if there are none.
std::string timing_note(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints);

/// [classes] The lowest op of each class, its representative.
std::vector<OpId> class_leaders(const Constraints& constraints);

}  // namespace emplace
