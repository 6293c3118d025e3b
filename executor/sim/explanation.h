#pragma once
/// Explains a placement: the cost of its parts where they are, and the step time if they were elsewhere.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/sim/simulator.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace {

/// Ops that are explained together: a scope, or a single op.
struct ExplainedPart {
  std::string name;
  std::vector<OpId> ops;

  // Filled by explain_placement().
  std::vector<std::size_t> ops_on;  ///< [devices] Number of the part's ops there.
  double time_s = 0;                ///< Time of its ops on their devices.
  double critical_s = 0;            ///< Share of time_s on the critical chain, plus transfers on it.
  std::int64_t state_bytes = 0;     ///< Bytes resident for the whole step.
  std::int64_t output_bytes = 0;    ///< Bytes written, without views.
  std::size_t companions = 0;       ///< Ops outside the part that are co-located with it.

  /// Cost if the whole part, with its companions, were on one device.
  struct There {
    bool allowed = false;  ///< The constraints allow it.
    bool same = false;     ///< The part is there already.
    double time_s = 0;     ///< Time of the part's ops on this device.
    Measurement measured;  ///< Re-simulated step; empty if not allowed.
  };
  std::vector<There> there;  ///< [devices] Only for the parts that were examined.
};

struct Explanation {
  Measurement measured;
  CriticalChain chain;
  std::vector<ExplainedPart> parts;  ///< Sorted by critical time, then by time.
};

/// The scopes of a graph, merged over time steps; its op types if it has no scopes.
std::vector<ExplainedPart> parts_by_scope(const OpGraph& graph);
std::vector<ExplainedPart> parts_by_op(const OpGraph& graph, const std::vector<OpId>& ops);

/// Computes the costs of every part, and simulates the `most` most important ones on each other device.
/// Errors: those of Simulator::measure. @pre the placement obeys the constraints.
Result<Explanation> explain_placement(const OpGraph& graph, const DeviceSet& devices,
                                      const Constraints& constraints, const Placement& placement,
                                      std::vector<ExplainedPart> parts, std::size_t most,
                                      SimulatorOptions options = {});

}  // namespace emplace
