#pragma once
/// Which device each op runs on, and what must hold for it.

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

/// op → device, one byte each: the form that travels and that the simulator reads.
using Placement = std::vector<DeviceId>;

/// What every placement of a graph on a device set must obey, as a value. Ops that must share a device form a
/// class; each class has the devices that all its members allow.
class Constraints {
 public:
  /// From the graph's `colocate` and `devices`, and a user's rules. Errors (kInvalid): an unknown device
  /// name; a class with no device left, naming two ops and the rules that tear it.
  static Result<Constraints> make(const OpGraph& graph, const DeviceSet& devices,
                                  const AppliedRules& rules = {});

  std::size_t num_classes() const { return allowed_.size(); }
  std::uint32_t class_of(OpId op) const { return class_of_[index(op)]; }
  std::span<const std::uint32_t> classes() const { return class_of_; }  ///< [ops] class of each op
  const DeviceMask& allowed(std::uint32_t colocation_class) const { return allowed_[colocation_class]; }
  bool allows(OpId op, DeviceId device) const { return allowed_[class_of(op)].test(index(device)); }

  /// Obeyed in place: members of a class follow their lowest op; a device that is not allowed becomes the
  /// lowest-numbered allowed one. Returns the number of ops moved. @pre one entry per op.
  std::size_t repair(Placement& placement) const;
  /// Errors (kInvalid): wrong length, a device out of range, a forbidden device, a class torn apart; names
  /// the op.
  Result<Unit> check(const OpGraph& graph, const DeviceSet& devices,
                     std::span<const DeviceId> placement) const;

 private:
  std::vector<std::uint32_t> class_of_;
  std::vector<DeviceMask> allowed_;
};

/// The lowest op of each class (its representative), by class.
std::vector<OpId> class_leaders(const Constraints& constraints);

}  // namespace emplace
