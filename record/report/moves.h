#pragma once
/// Differences between two placements.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::record {

/// Ops of one scope that moved from one device to another.
struct Move {
  std::string scope;
  DeviceId from{}, to{};
  std::uint64_t ops = 0;
  std::int64_t bytes = 0;  ///< Bytes of their outputs.
  /// Time of these ops on the old and on the new device [ns].
  std::int64_t time_from_ns = 0, time_to_ns = 0;
};

struct Moves {
  std::vector<Move> moves;  ///< All moves, most time first.
  Move total;               ///< Totals; its scope and devices are meaningless.
  std::uint64_t ops = 0;    ///< Ops that can move: all but views.
  /// [devices] Device of `before` that each device is compared with; identical devices may be swapped.
  std::vector<DeviceId> named;
};

/// Ops that changed their device, by scope. `scope_of_op` indexes `scopes`; time-step levels of a scope are
/// ignored. Identical devices (profile, memory, host, links to all others) are renamed such that the least
/// time moves, if there are at most six of a kind.
Moves moves_between(const OpGraph& graph, const DeviceSet& devices, const CostTable& costs,
                    const std::vector<std::string>& scopes, const std::vector<std::uint32_t>& scope_of_op,
                    const Placement& before, const Placement& after);

}  // namespace emplace::record
