#pragma once
/// Small workloads of dnn-partitioning, and the cost models of splits once more: written to be read beside
/// their definition, in whole milliseconds, with nothing of the product in them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "graph/op_graph.h"
#include "placement/objective.h"
#include "placement/placement.h"
#include "tests/support/sample_graphs.h"

namespace emplace::testing {

struct PlainNode {
  std::int64_t cpu_ms = 1, accelerator_ms = 1, size = 0, cost_ms = 0;
  bool backward = false, on_accelerator = true;
  int colour = -1;  ///< -1: none.
};

/// Nodes are numbered by their ids. A split gives each node a device: accelerators come first, from
/// `accelerators` on they are CPUs.
struct PlainWorkload {
  using Split = std::vector<std::size_t>;

  std::size_t accelerators = 2, cpus = 1;
  std::int64_t memory = 1000;
  std::vector<PlainNode> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;

  std::size_t devices() const { return accelerators + cpus; }
  std::string json() const;

  /// Empty if pieces wait for one another in a circle.
  std::optional<std::int64_t> latency_ms(const Split& split) const;
  std::vector<std::int64_t> loads_ms(const Split& split) const;  ///< [devices]
  std::int64_t max_load_ms(const Split& split) const;
  std::vector<std::int64_t> held(const Split& split) const;  ///< [devices] bytes
  bool fits(const Split& split) const;                       ///< Memory of accelerators.
  bool allowed(const Split& split) const;                    ///< Colours, nodes that are for CPUs only.
};

struct PlainShape {
  std::size_t nodes = 8, accelerators = 2, cpus = 1;
  bool colours = true, backward = false, cpu_only = true;
};
PlainWorkload random_workload(Rng& rng, const PlainShape& shape);

/// Calls `visit` for every split that is allowed.
template <class Visit>
void for_every_split(const PlainWorkload& workload, Visit visit) {
  PlainWorkload::Split split(workload.nodes.size(), 0);
  for (;;) {
    if (workload.allowed(split)) visit(std::as_const(split));
    std::size_t k = 0;
    while (k < split.size() && ++split[k] == workload.devices()) split[k++] = 0;
    if (k == split.size()) return;
  }
}

/// The workload as the product reads it, on the machine that it brings.
struct ReadWorkload : SampleTask {
  ReadWorkload(const PlainWorkload& workload, Objective objective);
  /// [ops] of a split by node ids.
  Placement placement(const PlainWorkload::Split& split) const;
  PlainWorkload::Split split(const Placement& placement) const;

  std::vector<std::size_t> id_of_op;
};

/// The id behind the '#' of an op's name.
std::size_t node_id(std::string_view name);

}  // namespace emplace::testing
