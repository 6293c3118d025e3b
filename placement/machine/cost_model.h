#pragma once
/// The time of each op on each device: measured if available, else a roofline estimate.
///   time_us = launch_us + max(flops / (peak · efficiency[class]), bytes / (bandwidth ·
///   bandwidth_efficiency))

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/machine/device_mask.h"

namespace emplace {

/// The efficiency class of an op (graphs/costs/devices.json, "classes").
OpClass classify(const OpGraph& graph, OpId op);
/// Bytes that an op moves in its device's memory, by the rule of its class.
std::int64_t memory_traffic_bytes(const OpGraph& graph, OpId op, OpClass op_class);
/// The roofline estimate [us]; 0 for state and views.
double estimate_us(const OpGraph& graph, OpId op, const Profile& profile);

/// [ops] Time of each op on a device of this profile [us]: the graph's measurement for the profile's name,
/// else the profile's measurement for the op's signature, else the graph's measurement for the kind of
/// device, else the estimate.
std::vector<double> exact_costs_us(const OpGraph& graph, const Profile& profile);

/// [ops] The devices that may run an op by what is known of its time: all, but of an op whose work is unknown
/// and whose time was measured for some devices, these alone. Empty if every op may be on every device.
std::vector<DeviceMask> timed_devices(const OpGraph& graph, const DeviceSet& devices);

/// The time of each op on each device, rounded once to whole nanoseconds. Devices with one profile share a
/// row. Immutable; any thread.
class CostTable {
 public:
  CostTable(const OpGraph& graph, const DeviceSet& devices);
  /// [ops] The row of a device [ns].
  std::span<const std::int64_t> row_ns(DeviceId device) const {
    return {ns_.data() + row_of_[index(device)] * num_ops_, num_ops_};
  }
  std::int64_t ns(DeviceId device, OpId op) const {
    return ns_[row_of_[index(device)] * num_ops_ + index(op)];
  }
  std::size_t row_of(DeviceId device) const { return row_of_[index(device)]; }
  std::size_t num_rows() const { return num_ops_ == 0 ? 0 : ns_.size() / num_ops_; }
  /// The least time over all devices, including those that `op` may not use [ns].
  std::int64_t best_ns(OpId op) const;

 private:
  std::size_t num_ops_ = 0;
  std::vector<std::size_t> row_of_;  // [devices]
  std::vector<std::int64_t> ns_;     // [rows, ops]
};

/// The share of op time in this placement whose cost was measured (in the graph or for the device); 1 if no
/// op takes time. @pre one device per op
double measured_cost_share(const OpGraph& graph, const DeviceSet& devices,
                           std::span<const DeviceId> placement);

}  // namespace emplace
