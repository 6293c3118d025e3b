#pragma once
/// What stands elsewhere in one placement than in another.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::record {

/// Ops of one scope that went from one device to another.
struct Move {
  std::string scope;
  DeviceId from{}, to{};
  std::uint64_t ops = 0;
  std::int64_t bytes = 0;                         ///< Of their outputs.
  std::int64_t time_from_ns = 0, time_to_ns = 0;  ///< Of these ops there and here.
};

struct Moves {
  std::vector<Move> moves;  ///< Those of most time first, all of them.
  Move total;               ///< Its scope and devices mean nothing.
  std::uint64_t ops = 0;    ///< That could have moved: all but views.
  /// [devices] As which device of `before` each counts: devices alike in every way may have changed names.
  std::vector<DeviceId> named;
};

/// `scope_of_op` numbers `scopes`; time-step levels of a scope do not count. Where devices are alike
/// (profile, memory, host, links to all others), they count under the names for which least moved, if there
/// are at most six of a kind.
Moves moves_between(const OpGraph& graph, const DeviceSet& devices, const CostTable& costs,
                    const std::vector<std::string>& scopes, const std::vector<std::uint32_t>& scope_of_op,
                    const Placement& before, const Placement& after);

}  // namespace emplace::record
