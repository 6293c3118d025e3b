#pragma once
/// The files that most commands begin with.

#include <string>
#include <vector>

#include "base/result.h"
#include "executor/split/judge.h"
#include "graph/op_graph.h"
#include "launcher/settings/graph_reading.h"
#include "placement/applied_rules.h"
#include "placement/machine/device.h"
#include "placement/objective.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// What commands that judge placements take: a graph, a machine, and how.
struct InputOptions {
  std::string graph, devices, reserve, rules, objective = "step-time", dispatch = "program";
  GraphReading reading = {};
};

/// A graph, a machine, the constraints between them, and what a placement is judged by.
struct Inputs {
  OpGraph graph;
  DeviceSet devices;
  AppliedRules rules;
  Constraints constraints;
  Judge judge;
  bool own_machine = false;  ///< The graph brought its machine along: times are milliseconds in its file.

  /// `seconds` as the graph's file counts: milliseconds for a workload, else seconds.
  double in_file_unit(double seconds) const { return own_machine ? seconds * 1e3 : seconds; }
};

/// As graph/graph_file.h and placement/machine/device_file.h have it; a file that is not there is answered
/// with the nearest name beside it.
Result<OpGraph> open_graph(const std::string& path, const GraphReading& reading = {});
Result<DeviceSet> open_devices(const std::string& path, double reserve_share = 0);
/// An empty path is no rules. Errors: kIo; kInvalid with file and line.
Result<AppliedRules> open_rules(const std::string& path, const OpGraph& graph, const DeviceSet& devices);
/// Errors: those of these; no machine where the graph brings none; rules that match nothing or contradict one
/// another; constraints that no device satisfies.
Result<Inputs> open_inputs(const InputOptions& options);
/// Errors (kNoPlacement): memory in which no placement can fit, by a proof; the shortfall in bytes and the
/// smallest device that would do are named.
Result<Unit> must_fit(const Inputs& inputs);

std::vector<std::string> device_names(const DeviceSet& devices);
std::string file_name(const std::string& path);

}  // namespace emplace::launcher
