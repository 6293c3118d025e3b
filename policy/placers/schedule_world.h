#pragma once
/// A graph on a machine as the scheduler policy sees it: kernels in issue order, units that share a device,
/// and features of each unit. All features are ratios: of times to the machine's times for this graph, of
/// bytes to its memory. So they mean the same on every graph and machine.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/machine/device_classes.h"
#include "placement/machine/device_mask.h"
#include "placement/machine/transfer_table.h"
#include "placement/placement.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Sets of ops that share a device.
struct ScheduleUnits {
  std::vector<std::uint32_t> unit_of_op;  ///< [ops]
  std::vector<DeviceMask> allowed;        ///< [units] Never empty.
  /// [units, kMoments] State and results alive at kMoments moments of a step in issue order [B].
  std::vector<std::int64_t> live_bytes;
  static constexpr std::size_t kMoments = 64;
};

/// log(1 + ratio) for the features; 0 for ratios below 0.
inline double log_ratio(double ratio) { return std::log1p(std::max(0.0, ratio)); }

/// Immutable after construction; any thread.
class ScheduleWorld {
 public:
  static constexpr std::uint8_t kNowhere = 0xff;
  static constexpr Eigen::Index kUnitFeatures = 34;
  /// Row of a unit's share of the longest path.
  static constexpr Eigen::Index kPathRow = 8;

  /// @pre fewer than 255 devices.
  ScheduleWorld(const LoweredGraph& lowered, const DeviceSet& devices, const CostTable& costs,
                ScheduleUnits units);

  std::size_t num_ops() const { return unit_of_op_.size(); }
  std::size_t num_units() const { return allowed_.size(); }
  std::size_t num_devices() const { return memory_.size(); }
  /// Units that have a kernel: the number of choices.
  std::size_t num_choices() const { return num_choices_; }
  /// [choices] Units that have a kernel, in the order of their first kernels: the order of a walk.
  std::vector<std::uint32_t> units_in_order() const;
  /// Most state and results alive at a moment, wherever they are [B].
  double peak_bytes() const {
    return static_cast<double>(*std::max_element(all_live_.begin(), all_live_.end()));
  }
  std::size_t num_kernels() const { return unit_of_kernel_.size(); }
  /// [kUnitFeatures, units]
  const Matrix& features() const { return features_; }
  /// True if two devices may be exchanged without any effect.
  bool are_twins(std::size_t a, std::size_t b) const {
    return classes_.are_alike(static_cast<DeviceId>(a), static_cast<DeviceId>(b));
  }
  /// [devices] New name of each device: the devices of each set of twins in order of their first use, which
  /// is how a walk uses them. A permutation.
  std::vector<std::uint8_t> names(std::span<const std::uint8_t> device_of_unit) const;
  /// The fastest device and those nearest to it, `count` in all: near means that a transfer takes little time
  /// for the device's speed.
  DeviceMask nearest_devices(std::size_t count) const;
  /// [units] With these names. Units without a device keep kNowhere.
  std::vector<std::uint8_t> renamed(std::span<const std::uint8_t> device_of_unit) const;
  /// [units] The device of each unit in a placement of the ops: the one with most of the unit's ops.
  std::vector<std::uint8_t> units_of(std::span<const DeviceId> placement) const;
  /// [ops] @pre every unit with a kernel has a device. Other units go to the emptiest device allowed.
  Placement placement_of(std::span<const std::uint8_t> device_of_unit) const;
  /// Moves the ops of each unit whose device is not the same before and after.
  void move_units(Placement& placement, std::span<const std::uint8_t> before,
                  std::span<const std::uint8_t> after) const;

 private:
  friend class ScheduleWalk;
  friend class SchedulerNetwork;

  /// A unit that exchanges data with another: what is sent over a mean link [ns], and by a machine's links.
  struct Neighbour {
    std::uint32_t unit;
    float bytes, copies, mean_ns;
    float weight;  // Share of all traffic in this direction.
  };
  struct Read {
    std::uint32_t buffer, owner_unit;
    std::int32_t maker;   // Kernel, or -1 for state.
    std::uint16_t until;  // Moment of the last read by the same unit.
  };

  void find_features(const LoweredGraph& lowered);
  void find_near();
  std::span<const Read> reads(std::size_t kernel) const {
    return {reads_.data() + read_begin_[kernel], read_begin_[kernel + 1] - read_begin_[kernel]};
  }
  std::span<const Neighbour> sources(std::size_t unit) const {
    return {sources_.data() + source_begin_[unit], source_begin_[unit + 1] - source_begin_[unit]};
  }
  std::span<const Neighbour> targets(std::size_t unit) const {
    return {targets_.data() + target_begin_[unit], target_begin_[unit + 1] - target_begin_[unit]};
  }
  const TransferLine& line(std::size_t source, std::size_t target) const {
    return transfers_.line(static_cast<DeviceId>(source), static_cast<DeviceId>(target));
  }
  double time_ns(std::size_t device, std::size_t kernel) const {
    return kernel_ns_[row_of_device_[device] * unit_of_kernel_.size() + kernel];
  }
  double unit_ns(std::size_t device, std::size_t unit) const {
    return unit_ns_[row_of_device_[device] * num_units() + unit];
  }

  std::vector<std::uint32_t> unit_of_op_, unit_of_kernel_;
  std::vector<DeviceMask> allowed_;
  std::vector<std::size_t> row_of_device_;
  std::vector<double> kernel_ns_, unit_ns_;  // [rows, kernels], [rows, units]
  std::vector<double> best_ns_;              // [units] On the fastest device that is allowed.
  std::vector<double> transfer_ns_;          // [units] Of all inputs over mean links.
  std::vector<double> rank_ns_;              // [kernels] Longest path to the end, with mean transfers.
  TransferTable transfers_;
  DeviceClasses classes_;           // What the features cannot distinguish.
  TransferLine mean_;               // Mean line between fast devices.
  std::vector<float> memory_;       // [devices]
  std::vector<bool> is_cpu_;        // [devices]
  std::vector<std::uint8_t> near_;  // [devices] The fastest one, then the nearest ones.
  std::vector<double> speed_;       // [devices] Time of the fastest one over its time.
  std::vector<float> live_;         // [units, moments] [B]
  std::vector<float> all_live_;     // [moments]
  std::vector<std::uint32_t> read_begin_, source_begin_, target_begin_;
  std::vector<Read> reads_;
  std::vector<Neighbour> sources_, targets_;
  std::vector<double> bytes_;              // [buffers]
  std::vector<std::uint16_t> alive_from_;  // [buffers] Moment at which it is made.
  double ideal_ns_ = 1;                    // All work, split over the devices by speed.
  std::size_t num_choices_ = 0;
  Matrix features_;
};

}  // namespace emplace::policy
