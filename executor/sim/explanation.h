#pragma once
/// Why ops are where they are: what they do there, and what the step would take if they were elsewhere.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/sim/simulator.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace {

/// Some ops that are looked at as one: a scope, or a single op.
struct ExplainedPart {
  std::string name;
  std::vector<OpId> ops;

  // What explain_placement() fills in.
  std::vector<std::size_t> ops_on;  ///< [devices] where they are.
  double time_s = 0;                ///< They take, where they are.
  double critical_s = 0;         ///< Of that, on the chain that decided the step; with their transfers on it.
  std::int64_t state_bytes = 0;  ///< They keep for the whole step.
  std::int64_t output_bytes = 0;  ///< They write, views left out.
  std::size_t companions = 0;     ///< Ops that are not theirs and must go where they go.

  /// If all of it, with its companions, were on one device.
  struct There {
    bool allowed = false;  ///< By the constraints.
    bool same = false;     ///< It is there already.
    double time_s = 0;     ///< The part would take.
    Measurement measured;  ///< The whole step, re-simulated; nothing if it is not allowed.
  };
  std::vector<There> there;  ///< [devices] Only for the parts that were looked into.
};

struct Explanation {
  Measurement measured;
  CriticalChain chain;
  std::vector<ExplainedPart> parts;  ///< Those that matter most first: by critical time, then by time.
};

/// The scopes of a graph with time steps taken together; its op types where it has no scopes.
std::vector<ExplainedPart> parts_by_scope(const OpGraph& graph);
std::vector<ExplainedPart> parts_by_op(const OpGraph& graph, const std::vector<OpId>& ops);

/// Looks at every part, and into the `most` that matter most: one simulation for each other device.
/// Errors: those of Simulator::measure. @pre the placement obeys the constraints.
Result<Explanation> explain_placement(const OpGraph& graph, const DeviceSet& devices,
                                      const Constraints& constraints, const Placement& placement,
                                      std::vector<ExplainedPart> parts, std::size_t most,
                                      SimulatorOptions options = {});

}  // namespace emplace
