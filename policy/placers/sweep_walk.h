#pragma once
/// One pass over the groups of a graph in topological order, and what each device would mean to the group at
/// hand: numbers that do not depend on how many groups and devices there are.

#include <cstdint>
#include <span>
#include <vector>

#include "policy/group_devices.h"
#include "policy/group_graph.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// A tensor between groups: made by one, read by others, sent to each device once.
struct SweepNet {
  std::uint32_t maker = 0;
  std::vector<std::uint32_t> readers;  ///< Each once, the maker not among them; at least one.
  double transfer_s = 0;               ///< To or from an accelerator.
};

/// A graph of groups and its machine, as the policy sees them. Plain data.
struct SweepWorld {
  std::size_t groups = 0, devices = 0;
  std::vector<double> time_s;  ///< [devices, groups] row-major.
  std::vector<double> bytes;   ///< [groups] What a group keeps on its device.
  std::vector<SweepNet> nets;
  std::vector<bool> accelerator;           ///< [devices] Pays transfers and has limited memory; else a CPU.
  std::vector<double> memory;              ///< [devices] bytes
  std::vector<std::uint32_t> kind;         ///< [devices] Devices of one kind may change places.
  std::vector<std::vector<bool>> allowed;  ///< [groups, devices]; empty: all.
  /// Devices that would make pieces wait for one another in a circle are passed over, as objectives do that
  /// run pieces whole (executor/split/latency_model.h).
  bool no_circles = false;
};

/// What a walk needs of a world, worked out once. Thread: immutable after construction.
class SweepPlan {
 public:
  /// @pre sizes agree; every group may use some device.
  explicit SweepPlan(SweepWorld world);

  static constexpr Eigen::Index kFeatures = 26;
  static constexpr Eigen::Index kAtStart = kFeatures - 1;  ///< Row: 1 where the start has the group.
  static constexpr std::uint8_t kNowhere = 0xff;           ///< The start of a group that has none.

  const SweepWorld& world() const { return world_; }
  /// [groups] depth first: of the groups that are ready the one that became so last.
  std::span<const std::uint32_t> order() const { return order_; }
  /// [groups] `device_of_group` with devices of one kind renamed in the order in which the walk meets them;
  /// a walk never takes another than the lowest of those that are alike and empty.
  std::vector<std::uint8_t> renamed(std::span<const std::uint8_t> device_of_group) const;

 private:
  friend class SweepWalk;
  float scaled(double seconds) const;
  /// [s] The cheapest cut after one of the groups from `position` on that all fit into `room` [B] together;
  /// infinite if the first does not.
  double least_until_full(std::size_t position, double room) const;

  SweepWorld world_;
  GroupGraph graph_;
  std::vector<std::uint32_t> order_;
  std::vector<std::vector<std::uint32_t>> read_, made_;  // [groups] nets
  double unit_s_ = 1;                       // Mean over groups of the time on the slowest device.
  Matrix fixed_;                            // [rows, groups] what is the same for all devices
  std::vector<double> frontier_s_;          // [groups] by position: cut after it
  std::vector<double> bytes_before_;        // [groups + 1] of all before a position
  std::vector<std::vector<double>> least_;  // [levels][groups] of 2^level positions from here
  double total_bytes_ = 0, smallest_memory_ = 1;
};

/// The state of one pass. Thread: one.
class SweepWalk {
 public:
  /// `start` [groups] devices (or kNowhere) where a placement to be improved has each group; renamed().
  SweepWalk(const SweepPlan& plan, std::span<const std::uint8_t> start);

  bool done() const { return at_ == plan_.order_.size(); }
  std::uint32_t group() const { return plan_.order_[at_]; }
  /// Finds out which devices are open to the group at hand.
  void look();
  /// [devices] False for what is not allowed, has no room or closes a circle (unless nothing is left then),
  /// or is the same as an empty device before it. At least one is true. Valid after look().
  const std::vector<bool>& open() const { return open_; }
  /// What an open device would mean to the group at hand: [kFeatures].
  void describe(std::size_t device, std::span<float> features) const;
  /// Puts the group at hand on an open device. Only after look().
  void take(std::size_t device);

 private:
  /// What runs as one: a piece of an accelerator, or a group on a CPU.
  struct Entity {
    double start_s = 0, load_s = 0;
    std::vector<std::uint64_t> before;  // Entities that this one waits for.
  };
  struct Option {
    std::int64_t entity = -1;  // -1: a new one.
    std::uint16_t piece = 0;
    bool circle = false;
    double pay_s = 0, end_s = 0, start_s = 0;
  };
  Option consider(std::size_t device) const;
  bool fits(std::size_t device) const {
    return !plan_.world_.accelerator[device] || plan_.world_.bytes[group()] <= free_bytes_[device];
  }
  bool waits_for(const Entity& entity, std::size_t other) const {
    return (entity.before[other / 64] >> (other % 64) & 1) != 0;
  }

  const SweepPlan& plan_;
  const std::vector<std::uint8_t> start_;
  std::size_t at_ = 0, words_;
  std::vector<bool> open_, considered_;                     // [devices]
  std::vector<Option> options_;                             // [devices]
  std::vector<std::uint8_t> device_of_;                     // [groups], kNowhere before its turn.
  std::vector<std::uint32_t> entity_of_;                    // [groups]
  std::vector<std::uint16_t> piece_;                        // [groups, devices]: pieces up to the group
  std::vector<std::vector<std::int64_t>> entity_of_piece_;  // [devices][piece]
  std::vector<Entity> entities_;
  std::vector<double> free_bytes_;
  std::vector<std::uint32_t> used_;  // [devices] groups there
  std::vector<bool> sent_;           // [nets] somebody outside reads it
  double end_s_ = 0, left_bytes_ = 0, first_end_s_ = 0, pressure_ = 0;
};

}  // namespace emplace::policy
