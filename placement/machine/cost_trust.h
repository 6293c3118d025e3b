#pragma once
/// How far the times of a placement can be trusted: the sources of its costs, and the error that such costs
/// had on measurements that they were not fitted to.

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"
#include "placement/costs/kernel_model.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/cost_version.h"
#include "placement/machine/device.h"

namespace emplace {

/// The costs behind a step time. A plain value.
struct StepCosts {
  CostVersion version = CostVersion::k1;  ///< The latest one of the devices that the placement uses.
  std::array<double, kNumCostSources>
      share{};  ///< [CostSource] Shares of the time in ops, which add up to 1.
  /// The error of the step time, as a share of it: the mean held-out errors of the costs, by time, as if all
  /// erred in the same direction.
  double error = 0;
};

/// The costs of placements on a machine; those of a device are made when it is first asked for. Thread: one
/// owner.
class PlacementCosts {
 public:
  /// The arguments must outlive it.
  PlacementCosts(const OpGraph& graph, const DeviceSet& devices);
  OpTime of(OpId op, DeviceId device) { return on(device).of(op); }
  /// [ops] The times of all ops on a device [us].
  std::vector<double> us(DeviceId device);
  /// @pre one device per op
  StepCosts of(std::span<const DeviceId> placement);
  /// The error of the difference of two step times, as a share of the first one: only ops on unlike devices
  /// count, because the others cost the same in both. @pre one device per op in both
  double difference_error(std::span<const DeviceId> a, std::span<const DeviceId> b);

 private:
  const OpCosts& on(DeviceId device);

  const OpGraph& graph_;
  const DeviceSet& devices_;
  std::optional<GraphKernels> kernels_;
  std::vector<std::unique_ptr<OpCosts>> costs_;  // [devices] Null: not used so far.
};

}  // namespace emplace
