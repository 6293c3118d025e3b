#pragma once
/// What graph partitioners see of a problem: undirected, weighted, classes contracted to vertices.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "heuristics/method.h"
#include "heuristics/placing_units.h"

namespace emplace {

/// Vertices are the units that work or hold state (views go with what they view). An edge joins the maker of
/// a buffer with each unit that reads it. Immutable; any thread.
class PartitionGraph {
 public:
  PartitionGraph(const Problem& problem, const LoweredGraph& lowered, const PlacingUnits& units);

  std::size_t size() const { return work_ns_.size(); }
  /// [vertices] time on the first fast device [ns]; bytes of state and of all results [B].
  std::span<const double> work_ns() const { return work_ns_; }
  std::span<const double> bytes() const { return bytes_; }
  /// Rows of the adjacency, both directions: neighbours of v are first()[v] … first()[v + 1].
  std::span<const std::uint32_t> first() const { return first_; }
  std::span<const std::uint32_t> neighbours() const { return neighbours_; }
  /// [edges] sent if the edge is cut [B]. `time_ns`: latency and transfer over the mean link of the machine.
  std::span<const double> edge_bytes() const { return edge_bytes_; }
  std::span<const double> edge_ns() const { return edge_ns_; }

  /// Every op on its vertex' device. Where that is not allowed, on the allowed one (of `machine`, if any)
  /// with which the vertex exchanges most.   `device_of` [vertices]
  Placement placement(std::vector<DeviceId> device_of, const std::vector<DeviceId>& machine) const;

 private:
  const Problem problem_;
  const PlacingUnits& units_;
  std::vector<std::int32_t> vertex_of_unit_;  // -1: views alone
  std::vector<std::uint32_t> unit_of_vertex_;
  std::vector<double> work_ns_, bytes_, edge_bytes_, edge_ns_;
  std::vector<std::uint32_t> first_, neighbours_;
};

/// What a partitioner is to do, in integers that its sums hold.
struct PartitionTask {
  std::vector<std::int32_t> first, neighbours;  ///< [vertices + 1], [edges]
  std::vector<std::int32_t> edge_weight;        ///< [edges] >= 1, in all at most 10^9
  std::vector<std::vector<std::int32_t>>
      weight;                              ///< [constraints, vertices] >= 1, in all about 10^9 / 2 each
  std::vector<std::vector<double>> share;  ///< [constraints, parts], each row adds up to 1
};

/// `values` times a factor, rounded, at least 1, so that they add up to about `total`; none is more than
/// `most` of the sum: larger ones are cut off there.
std::vector<std::int32_t> scaled(std::span<const double> values, double total, double most = 1);
/// How much of the work, and of the memory, each device of a machine should take; both add up to 1.
std::vector<double> shares_by_speed(const Problem& problem, const std::vector<DeviceId>& machine);
std::vector<double> shares_by_memory(const Problem& problem, const std::vector<DeviceId>& machine);
/// For what is too small for a partitioner: vertices by decreasing first weight, each to the part that is
/// furthest below its share.   Returns [vertices] parts.
std::vector<std::int32_t> deal_out(const PartitionTask& task);

}  // namespace emplace
