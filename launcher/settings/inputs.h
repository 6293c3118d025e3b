#pragma once
/// The input files of most commands.

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

/// Options of commands that evaluate placements: graph, machine, rules and objective.
struct InputOptions {
  std::string graph, devices, reserve, rules, objective = "step-time", dispatch = "program";
  GraphReading reading = {};
};

/// A graph, a machine, the constraints between them, and the objective.
struct Inputs {
  OpGraph graph;
  DeviceSet devices;
  AppliedRules rules;
  Constraints constraints;
  Judge judge;
  bool own_machine = false;  ///< The graph file contains the machine; then its times are in milliseconds.

  /// Converts `seconds` to the unit of the graph file: milliseconds for a workload, else seconds.
  double in_file_unit(double seconds) const { return own_machine ? seconds * 1e3 : seconds; }
};

/// Read a graph or device file (graph/graph_file.h, placement/machine/device_file.h). The error for a missing
/// file gives the nearest file name in the same folder.
Result<OpGraph> open_graph(const std::string& path, const GraphReading& reading = {});
Result<DeviceSet> open_devices(const std::string& path, double reserve_share = 0);
/// Reads and applies rules; an empty path means no rules. Errors: kIo; kInvalid with file and line.
Result<AppliedRules> open_rules(const std::string& path, const OpGraph& graph, const DeviceSet& devices);
/// Opens all inputs. Errors: those of the functions above; a missing machine; rules that match nothing or
/// contradict each other; constraints that no device satisfies.
Result<Inputs> open_inputs(const InputOptions& options);
/// Errors (kNoPlacement): provably no placement fits the memory; the error states the shortfall in bytes and
/// the smallest sufficient device.
Result<Unit> must_fit(const Inputs& inputs);

std::vector<std::string> device_names(const DeviceSet& devices);
std::string file_name(const std::string& path);

}  // namespace emplace::launcher
