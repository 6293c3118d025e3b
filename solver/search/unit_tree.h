#pragma once
/// The devices of a tree of units, all at once: exact for a cost that is a sum over units and pairs of units.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "solver/search/level.h"

namespace emplace {

class Walker;

/// A random tree of units that exchange tensors. choose() minimises over the devices d_u of its units
///   Σ_u price(d_u) · time(u, d_u) + weight · Σ_(u,v) transfer(u, d_u; v, d_v),
/// where v is a neighbour of u along the tree, or any other neighbour, which stays on its device. It passes
/// the least costs from the leaves to the root (min-sum), in O(nodes · devices²). Thread: one.
class UnitTree {
 public:
  /// A unit of the tree; parents come before their children.
  struct Node {
    std::uint32_t unit;
    std::uint32_t parent;  ///< Position in the tree; of the root its own.
  };

  /// `level` and `problem` must outlive it.
  UnitTree(const Level& level, const Problem& problem);

  /// Draws a tree of at most `most` units that contains `root`. Its units are in the walk's window and may
  /// move; it is empty if the root may not.
  void grow(Walker& walker, std::uint32_t root, std::size_t most);
  std::span<const Node> nodes() const { return nodes_; }
  /// [nodes] The devices of the least cost, if all other units stay on those of `now` [units]. `prices`:
  /// [devices], `weight`: > 0.
  std::span<const DeviceId> choose(std::span<const DeviceId> now, std::span<const double> prices,
                                   double weight);

 private:
  /// Tensors that a unit exchanges with a neighbour, each counted once per reading unit.
  struct Traffic {
    std::uint32_t sent = 0, received = 0;
    std::int64_t bytes_sent = 0, bytes_received = 0;
  };

  bool holds(std::uint32_t unit) const { return reached_[unit] == trees_; }
  std::size_t index_of(std::uint32_t unit, std::uint32_t neighbour) const;
  double time_s(std::uint32_t unit, std::size_t device) const {
    return time_s_[unit * num_devices_ + device];
  }
  /// All transfers between a unit on `own` and its neighbour on `other` [s].
  double transfer_s(const Traffic& traffic, std::size_t own, std::size_t other) const;
  /// Cost of a node on a device, without the edges of the tree.
  double own_cost(std::uint32_t node, std::size_t device, std::span<const DeviceId> now, double price,
                  double weight) const;

  const Level& level_;
  const std::size_t num_devices_;
  std::vector<double> time_s_;                  // [units, devices]
  std::vector<std::vector<Traffic>> traffic_;   // [units, neighbours] In the order of level.neighbours.
  std::vector<double> latency_s_, s_per_byte_;  // [devices, devices] Source first.
  std::vector<Node> nodes_, open_;
  std::vector<std::uint32_t> reached_;  // [units] Number of the last tree that contains the unit.
  std::vector<std::uint32_t> place_;    // [units] Position in the tree.
  std::uint32_t trees_ = 0;
  std::vector<double> cost_;           // [nodes, devices]
  std::vector<std::uint32_t> choice_;  // [nodes, devices of the parent]
  std::vector<DeviceId> chosen_;       // [nodes]
};

}  // namespace emplace
