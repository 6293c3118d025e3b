#pragma once
/// A graph on a machine as the scheduler policy sees it: kernels in issue order, units that share a device,
/// and features of each unit (schedule_features.h).

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/lowering.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/machine/device_classes.h"
#include "placement/machine/device_mask.h"
#include "placement/machine/transfer_table.h"
#include "placement/placement.h"
#include "policy/placers/schedule_features.h"

namespace emplace::policy {

/// Sets of ops that share a device.
struct ScheduleUnits {
  std::vector<std::uint32_t> unit_of_op;  ///< [ops]
  std::vector<DeviceMask> allowed;        ///< [units] Never empty.
  /// [units, kMoments] State and results alive at kMoments moments of a step in issue order [B].
  std::vector<std::int64_t> live_bytes;
  static constexpr std::size_t kMoments = 64;
};

/// Immutable after construction; any thread.
class ScheduleWorld {
 public:
  static constexpr std::uint8_t kNowhere = 0xff;
  /// A unit that exchanges data with another.
  struct Neighbour {
    std::uint32_t unit;
    float bytes, copies;
    float mean_ns;  ///< Time of what is sent over a mean link [ns].
    float weight;   ///< Share of all traffic in this direction.
  };
  /// A read of a buffer by a kernel.
  struct Read {
    std::uint32_t buffer, owner_unit;
    std::int32_t maker;   ///< Kernel, or -1 for state.
    std::uint16_t until;  ///< Moment of the last read by the same unit.
  };

  /// @pre fewer than 255 devices.
  ScheduleWorld(const LoweredGraph& lowered, const DeviceSet& devices, const CostTable& costs,
                ScheduleUnits units);

  std::size_t num_ops() const { return unit_of_op_.size(); }
  std::size_t num_units() const { return allowed_.size(); }
  std::size_t num_kernels() const { return unit_of_kernel_.size(); }
  std::size_t num_devices() const { return machine_.memory.size(); }
  std::size_t num_buffers() const { return memory_.bytes.size(); }
  /// Units that have a kernel: the number of choices.
  std::size_t num_choices() const { return features_.num_choices; }
  /// [choices] Units that have a kernel, in the order of their first kernels: the order of a walk.
  std::vector<std::uint32_t> units_in_order() const;
  std::uint32_t unit_of(std::size_t kernel) const { return unit_of_kernel_[kernel]; }
  /// Devices that a unit may use; never empty.
  const DeviceMask& allowed(std::size_t unit) const { return allowed_[unit]; }

  // The machine.
  float memory(std::size_t device) const { return machine_.memory[device]; }  ///< [B]
  bool is_cpu(std::size_t device) const { return machine_.is_cpu[device]; }
  /// Time of all kernels on the fastest device over that on this one.
  double speed(std::size_t device) const { return machine_.speed[device]; }
  /// Whether a device counts beside the fastest one.
  bool is_fast(std::size_t device) const;
  const TransferTable& transfers() const { return machine_.transfers; }
  const TransferLine& line(std::size_t source, std::size_t target) const {
    return machine_.transfers.line(static_cast<DeviceId>(source), static_cast<DeviceId>(target));
  }
  /// The mean between fast devices.
  const TransferLine& mean_line() const { return machine_.mean; }

  // Times.
  double time_ns(std::size_t device, std::size_t kernel) const {
    return times_.kernel_ns[machine_.row[device] * num_kernels() + kernel];
  }
  double unit_ns(std::size_t device, std::size_t unit) const {
    return times_.unit_ns[machine_.row[device] * num_units() + unit];
  }
  /// Time of a unit on the fastest device that it may use.
  double best_ns(std::size_t unit) const { return times_.best_ns[unit]; }
  /// All work, split over the devices by speed.
  double ideal_ns() const { return times_.ideal_ns; }
  /// Longest path from the start of a kernel to the end, with mean transfers.
  double rank_ns(std::size_t kernel) const { return features_.rank_ns[kernel]; }

  // Memory.
  /// [kMoments] State and results of a unit at each moment, and of all units [B].
  std::span<const float> live(std::size_t unit) const {
    return std::span{memory_.live}.subspan(unit * ScheduleUnits::kMoments, ScheduleUnits::kMoments);
  }
  std::span<const float> all_live() const { return memory_.all_live; }
  /// Most state and results alive at a moment, wherever they are [B].
  double peak_bytes() const {
    return static_cast<double>(*std::max_element(memory_.all_live.begin(), memory_.all_live.end()));
  }
  double bytes(std::size_t buffer) const { return memory_.bytes[buffer]; }
  /// Moment at which a buffer is made.
  std::uint16_t alive_from(std::size_t buffer) const { return memory_.alive_from[buffer]; }

  // Traffic.
  std::span<const Read> reads(std::size_t kernel) const {
    return row(traffic_.reads, traffic_.read_begin, kernel);
  }
  std::span<const Neighbour> sources(std::size_t unit) const {
    return row(traffic_.sources, traffic_.source_begin, unit);
  }
  std::span<const Neighbour> targets(std::size_t unit) const {
    return row(traffic_.targets, traffic_.target_begin, unit);
  }
  /// Time of all that a unit reads from others, over mean links.
  double transfer_ns(std::size_t unit) const { return traffic_.in_ns[unit]; }

  /// [ScheduleFeatures::kRows, units]
  const Matrix& features() const { return features_.of_unit; }
  /// True if two devices may be exchanged without any effect.
  bool are_twins(std::size_t a, std::size_t b) const {
    return machine_.classes.are_alike(static_cast<DeviceId>(a), static_cast<DeviceId>(b));
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
  struct Machine {
    Machine(const DeviceSet& devices, DeviceClasses alike) : transfers{devices}, classes{std::move(alike)} {}
    std::vector<std::size_t> row;  // [devices] Row of times.
    std::vector<float> memory;     // [devices] [B]
    std::vector<bool> is_cpu;      // [devices]
    std::vector<double> speed;     // [devices]
    TransferTable transfers;
    DeviceClasses classes;  // Twins share a class.
    TransferLine mean;
    std::vector<std::uint8_t> near;  // [devices] The fastest one, then the nearest ones.
  };
  struct Times {
    std::vector<double> kernel_ns, unit_ns;  // [rows, kernels], [rows, units]
    std::vector<double> total_ns;            // [rows]
    std::vector<double> best_ns;             // [units]
    double ideal_ns = 1;
  };
  struct Memory {
    std::vector<float> live, all_live;      // [units, moments], [moments]
    std::vector<double> bytes;              // [buffers]
    std::vector<std::uint16_t> alive_from;  // [buffers]
  };
  struct Traffic {
    std::vector<std::uint32_t> read_begin, source_begin, target_begin;
    std::vector<Read> reads;
    std::vector<Neighbour> sources, targets;
    std::vector<double> in_ns;  // [units]
  };
  /// What is sent from a unit to another.
  struct Sent {
    double bytes = 0, copies = 0;
  };
  using SentBetween = std::map<std::pair<std::uint32_t, std::uint32_t>, Sent>;  // From, to.

  // Stages of the constructor.
  std::vector<std::uint32_t> number_kernels(const LoweredGraph& lowered);
  void sum_times(const LoweredGraph& lowered, const DeviceSet& devices, const CostTable& costs);
  void find_speeds();
  void note_memory(const LoweredGraph& lowered, std::span<const std::int64_t> live_bytes,
                   std::span<const std::uint32_t> kernel_of_op);
  void list_reads(const LoweredGraph& lowered, std::span<const std::uint32_t> kernel_of_op);
  SentBetween find_traffic(const LoweredGraph& lowered) const;
  void list_neighbours(const SentBetween& sent);
  void find_near();

  /// The moment of a kernel in issue order.
  std::uint16_t moment_of(std::size_t kernel) const;
  template <class T>
  static std::span<const T> row(const std::vector<T>& values, const std::vector<std::uint32_t>& begin,
                                std::size_t i) {
    return {values.data() + begin[i], begin[i + 1] - begin[i]};
  }

  std::vector<std::uint32_t> unit_of_op_, unit_of_kernel_;
  std::vector<DeviceMask> allowed_;  // [units]
  Machine machine_;
  Times times_;
  Memory memory_;
  Traffic traffic_;
  ScheduleFeatures features_;
};

}  // namespace emplace::policy
