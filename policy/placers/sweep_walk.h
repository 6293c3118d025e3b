#pragma once
/// One pass over the groups of a graph in topological order, with features of each device for the current
/// group that do not depend on the number of groups and devices.

#include <cstdint>
#include <span>
#include <vector>

#include "policy/group_devices.h"
#include "policy/group_graph.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// A tensor between groups: produced by one, read by others, sent to each device once.
struct SweepNet {
  std::uint32_t maker = 0;
  std::vector<std::uint32_t> readers;  ///< Each reader once, without the producer; not empty.
  double transfer_s = 0;               ///< Transfer time to or from an accelerator [s].
};

/// A graph of groups and its machine, in the form the policy uses. Plain data.
struct SweepWorld {
  std::size_t groups = 0, devices = 0;
  std::vector<double> time_s;  ///< [devices, groups] Row-major.
  std::vector<double> bytes;   ///< [groups] Bytes that a group keeps on its device.
  std::vector<SweepNet> nets;
  /// [devices] True for devices with transfer costs and limited memory; false for CPUs.
  std::vector<bool> accelerator;
  std::vector<double> memory;              ///< [devices] Memory [B].
  std::vector<std::uint32_t> kind;         ///< [devices] Devices of the same kind are alike (DeviceClasses).
  std::vector<std::vector<bool>> allowed;  ///< [groups, devices]; empty: all.
  /// Skip devices on which pieces would wait for one another in a cycle, as required by objectives that run
  /// each piece as a whole (executor/split/latency_model.h).
  bool acyclic = false;
};

/// Precomputed data of a world for walks. Thread: immutable after construction.
class SweepPlan {
 public:
  /// @pre Sizes agree; every group has an allowed device.
  explicit SweepPlan(SweepWorld world);

  static constexpr Eigen::Index kFeatures = 26;
  /// Row that is 1 for the group's device in the start.
  static constexpr Eigen::Index kAtStart = kFeatures - 1;
  static constexpr std::uint8_t kNowhere = 0xff;  ///< Start device of a group without one.

  const SweepWorld& world() const { return world_; }
  /// [groups] Depth-first order: among the ready groups, the one that became ready last.
  std::span<const std::uint32_t> order() const { return order_; }
  /// [groups] `device_of_group` with devices of one kind renamed in the order of first use by the walk. Among
  /// identical empty devices a walk always takes the lowest.
  std::vector<std::uint8_t> renamed(std::span<const std::uint8_t> device_of_group) const;

  /// [nets] Those that a group reads.
  std::span<const std::uint32_t> read(std::size_t group) const { return read_[group]; }
  /// Features that do not depend on the walk, of the group at a position of the order.
  std::span<const float> fixed(std::size_t position) const {
    const auto column = fixed_.col(static_cast<Eigen::Index>(position));
    return {column.data(), static_cast<std::size_t>(column.size())};
  }
  /// Cost of a cut after a position [s].
  double frontier_s(std::size_t position) const { return frontier_s_[position]; }
  /// [s] Cheapest cut after one of the groups from `position` on that together fit into `room` [B]; infinite
  /// if the first does not fit.
  double least_until_full(std::size_t position, double room) const;
  /// log(1 + time over the mean time of a group), the scale of all times in features.
  float scaled(double seconds) const;
  double total_bytes() const { return total_bytes_; }  ///< Sum over the groups [B].
  double smallest_memory() const {
    return smallest_memory_;
  }  ///< The least of an accelerator [B]; 1 without any.

 private:
  struct GroupTimes {
    std::vector<double> slow, fast, out;  // [groups] On the slowest and the fastest device; of its outputs.
  };
  // Stages of the constructor.
  void list_nets();
  GroupTimes find_times();
  void find_frontier();
  void fill_fixed(const GroupTimes& times);

  SweepWorld world_;
  GroupGraph graph_;
  std::vector<std::uint32_t> order_;
  std::vector<std::vector<std::uint32_t>> read_;  // [groups] Nets that each group reads.
  double unit_s_ = 1;                             // Mean over groups of the time on the slowest device [s].
  Matrix fixed_;                                  // [rows, groups] Features common to all devices.
  std::vector<double> frontier_s_;                // [groups] Cost of a cut after each position [s].
  std::vector<double> bytes_before_;              // [groups + 1] Total bytes before each position.
  // [levels][groups] Minimum of frontier_s_ over 2^level positions from here.
  std::vector<std::vector<double>> least_;
  double total_bytes_ = 0, smallest_memory_ = 1;
};

/// The state of one pass. Thread: one.
class SweepWalk {
 public:
  /// `start` [groups] Device (or kNowhere) of each group in the placement to improve, as from renamed().
  SweepWalk(const SweepPlan& plan, std::span<const std::uint8_t> start);

  bool done() const { return at_ == plan_.order().size(); }
  std::uint32_t group() const { return plan_.order()[at_]; }
  /// Determines the open devices of the current group.
  void evaluate();
  /// [devices] False if the device is forbidden, lacks memory or closes a cycle (unless no device would
  /// remain), or equals an earlier empty device. At least one is true. Valid after evaluate().
  const std::vector<bool>& open() const { return open_; }
  /// Writes the features [kFeatures] of an open device for the current group.
  void describe(std::size_t device, std::span<float> features) const;
  /// Puts the current group on an open device. @pre evaluate() was called for it.
  void take(std::size_t device);

 private:
  /// A unit of execution: a piece on an accelerator, or a group on a CPU.
  struct Entity {
    double start_s = 0, load_s = 0;
    std::vector<std::uint64_t> before;  // Bit set of the entities that this one waits for.
  };
  struct Option {
    std::int64_t entity = -1;  // Index of the entity; -1: a new one.
    std::uint16_t piece = 0;
    bool circle = false;
    double pay_s = 0, end_s = 0, start_s = 0;
  };
  Option consider(std::size_t device) const;
  bool fits(std::size_t device) const {
    return !plan_.world().accelerator[device] || plan_.world().bytes[group()] <= free_bytes_[device];
  }
  bool waits_for(const Entity& entity, std::size_t other) const {
    return (entity.before[other / 64] >> (other % 64) & 1) != 0;
  }

  const SweepPlan& plan_;
  const std::vector<std::uint8_t> start_;
  std::size_t at_ = 0, words_;
  std::vector<bool> open_, considered_;   // [devices]
  std::vector<Option> options_;           // [devices]
  std::vector<std::uint8_t> device_of_;   // [groups] kNowhere if not yet placed.
  std::vector<std::uint32_t> entity_of_;  // [groups]
  std::vector<std::uint16_t> piece_;  // [groups, devices] Number of pieces on each device up to the group.
  std::vector<std::vector<std::int64_t>> entity_of_piece_;  // [devices][piece]
  std::vector<Entity> entities_;
  std::vector<double> free_bytes_;
  std::vector<std::uint32_t> used_;  // [devices] Number of groups.
  std::vector<bool> sent_;           // [nets] True if another entity reads it.
  double end_s_ = 0, left_bytes_ = 0, first_end_s_ = 0, pressure_ = 0;
};

}  // namespace emplace::policy
