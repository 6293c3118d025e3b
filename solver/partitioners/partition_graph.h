#pragma once
/// The problem as a graph partitioner needs it: undirected, weighted, classes contracted to vertices.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "solver/method.h"
#include "solver/partitioners/placing_units.h"

namespace emplace {

/// Input of a partitioner, in integers that do not overflow its sums.
struct PartitionTask {
  std::vector<std::int32_t> first, neighbours;  ///< [vertices + 1], [edges]
  std::vector<std::int32_t> edge_weight;        ///< [edges] >= 1, total at most 10^9
  /// [constraints, vertices] >= 1, total about kWeightTotal each
  std::vector<std::vector<std::int32_t>> weight;
  std::vector<std::vector<double>> share;  ///< [constraints, parts] Each row sums to 1.
};
inline constexpr double kWeightTotal = 5e8;

/// Vertices are the units that work or hold state (views belong to their base). An edge connects the producer
/// of a buffer with each unit that reads it. Immutable; any thread.
class PartitionGraph {
 public:
  PartitionGraph(const Problem& problem, const LoweredGraph& lowered, const PlacingUnits& units);

  std::size_t size() const { return work_ns_.size(); }
  /// [vertices] Time on the first fast device [ns]; bytes of state and of all results [B].
  std::span<const double> work_ns() const { return work_ns_; }
  std::span<const double> bytes() const { return bytes_; }
  /// Adjacency rows, both directions: neighbours of v are first()[v] … first()[v + 1].
  std::span<const std::uint32_t> first() const { return first_; }
  std::span<const std::uint32_t> neighbours() const { return neighbours_; }
  /// [edges] Bytes sent if the edge is cut, and latency plus transfer time over the machine's mean link [ns].
  std::span<const double> edge_bytes() const { return edge_bytes_; }
  std::span<const double> edge_ns() const { return edge_ns_; }

  /// The graph with these weights [edges], for a partitioner.
  PartitionTask task(std::span<const double> edge_weight) const;
  /// Places every op on the device of its vertex' part. If that is forbidden, on the allowed device (of
  /// `machine`, if any) with which the vertex exchanges most.
  ///   parts    [vertices]
  ///   machine  [parts]
  Placement placement(const std::vector<std::int32_t>& parts, const std::vector<DeviceId>& machine) const;

 private:
  const Problem problem_;
  const PlacingUnits& units_;
  std::vector<std::int32_t> vertex_of_unit_;  // -1: only views.
  std::vector<std::uint32_t> unit_of_vertex_;
  std::vector<double> work_ns_, bytes_, edge_bytes_, edge_ns_;
  std::vector<std::uint32_t> first_, neighbours_;
};

/// Scales `values` to a sum of about `total`, rounded, each at least 1. Values above the share `most` of the
/// sum are clipped.
std::vector<std::int32_t> scaled(std::span<const double> values, double total, double most = 1);
/// Share of the work, and of the memory, that each device of a machine should take; each sums to 1.
std::vector<double> shares_by_speed(const Problem& problem, const std::vector<DeviceId>& machine);
std::vector<double> shares_by_memory(const Problem& problem, const std::vector<DeviceId>& machine);
/// Fallback for inputs too small for a partitioner: vertices by decreasing first weight, each to the part
/// that is furthest below its share.   Returns [vertices] parts.
std::vector<std::int32_t> deal_out(const PartitionTask& task);

/// Total time of this process inside Scotch and METIS [ns]. For benchmarks: they subtract it. Any thread.
std::int64_t partitioner_ns();
/// Adds its own lifetime to partitioner_ns().
class PartitionerTime {
 public:
  PartitionerTime();
  ~PartitionerTime();
  PartitionerTime(const PartitionerTime&) = delete;
  PartitionerTime& operator=(const PartitionerTime&) = delete;

 private:
  const std::int64_t start_ns_;
};

}  // namespace emplace
