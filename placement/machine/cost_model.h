#pragma once
/// The time of each op on each device: measured if available, else an estimate. Version 2 of the costs
/// estimates kernels by their arithmetic and by tables (placement/costs/kernel_model.h), version 1 by a
/// roofline:
///   time_us = launch_us + max(flops / (peak · efficiency[class]), bytes / (bandwidth ·
///   bandwidth_efficiency))

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"
#include "placement/costs/kernel_model.h"
#include "placement/machine/device.h"
#include "placement/machine/device_mask.h"
#include "placement/machine/peer_links.h"

namespace emplace {

/// The efficiency class of an op (graphs/costs/devices.json, "classes").
OpClass classify(const OpGraph& graph, OpId op);
/// Bytes that an op moves in its device's memory, by the rule of its class.
std::int64_t memory_traffic_bytes(const OpGraph& graph, OpId op, OpClass op_class);
/// The roofline estimate of version 1 [us]; 0 for state and views. `rate` scales the peak.
double roofline_us(const OpGraph& graph, OpId op, const Profile& profile, double rate = 1);

/// The time of an op, and how far it can be trusted: where it runs two kernels, as the less trusted one of
/// them, with the error of both by their times.
struct OpTime {
  double us = 0;
  CostTrust trust;
  double floor_us = 0;  ///< What the peaks of the device would allow; 0: unknown, because it was measured.
};

/// The times of a graph's ops on devices of one profile: the graph's measurement for the profile's name, else
/// the profile's measurement for the op's signature, else the graph's measurement for the kind of device,
/// else the estimate. Collectives are estimated by `links`; without a known link as copies in the device's
/// own memory. Immutable; any thread. The arguments but the links must outlive it.
class OpCosts {
 public:
  /// `kernels`: those of the graph; null: this object makes its own, if the profile needs any.
  OpCosts(const OpGraph& graph, const Profile& profile, const GraphKernels* kernels = nullptr,
          const PeerLinks& links = {});
  ~OpCosts();
  OpCosts(const OpCosts&) = delete;
  OpCosts& operator=(const OpCosts&) = delete;
  /// 0 us for state and views.
  OpTime of(OpId op) const;
  double us(OpId op) const;  ///< of(op).us

 private:
  struct State;
  const std::unique_ptr<const State> state_;
};

/// The kernels of a graph, if a device of the machine needs them.
std::optional<GraphKernels> kernels_for(const OpGraph& graph, const DeviceSet& devices);
/// The links that a device needs for the times of these kernels: none if there is no collective among them.
PeerLinks links_for(const std::optional<GraphKernels>& kernels, const DeviceSet& devices, DeviceId device);

/// [ops] The devices that may run an op by what is known of its time: all, but of an op whose work is unknown
/// and whose time was measured for some devices, these alone. Empty if every op may be on every device.
std::vector<DeviceMask> timed_devices(const OpGraph& graph, const DeviceSet& devices);

/// The time of each op on each device, rounded once to whole nanoseconds. Devices with one profile share a
/// row, unless the graph has collectives and their links differ. Immutable; any thread.
class CostTable {
 public:
  CostTable(const OpGraph& graph, const DeviceSet& devices);
  /// Times of other ops of the same machine. `sources` [ops]: the op of `table` that takes as long; kNoOp:
  /// none, the op takes no time.
  CostTable(const CostTable& table, std::span<const OpId> sources);
  /// The times of ops that run several times: `runs` [ops] times as long.
  CostTable repeated(std::span<const std::uint32_t> runs) const;
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

}  // namespace emplace
