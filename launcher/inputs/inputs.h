#pragma once
/// The input files of most commands.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "executor/split/judge.h"
#include "graph/op_graph.h"
#include "launcher/inputs/graph_reading.h"
#include "launcher/inputs/machine_form.h"
#include "placement/applied_rules.h"
#include "placement/machine/device.h"
#include "placement/objective.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// Options of commands that evaluate placements: graph, machine, rules and objective.
struct InputOptions {
  std::string graph, devices, reserve, rules, objective = "step-time", dispatch = "program";
  std::string costs{word_of(kCurrentCosts)};
  std::string micro_batches = "1";  ///< A number, or auto.
  std::uint64_t replicas = 1;
  std::string schedule{word_of(PipelineSchedule::k1F1B)};
  GraphReading reading = {};

  /// Errors (kInvalid): an unknown cost version.
  Result<CostVersion> cost_version() const;
  /// The judge that objective, dispatch and micro-batches name. Errors: those of parse_judge(); an unknown
  /// schedule.
  Result<Judge> judge() const;
};

/// A graph, a machine, the constraints between them, and the objective.
struct Inputs {
  OpGraph graph;
  DeviceSet devices;
  AppliedRules rules;
  Constraints constraints;
  Judge judge;
  bool workload = false;  ///< The machine is that of a dnn-partitioning workload; its file has milliseconds.
  std::string machine;    ///< What the machine is called: "its own machine", "h100 x 4", a file name.
  std::vector<std::string> machine_notes;  ///< One line per assumption about the machine.

  /// Converts `seconds` to the unit of the graph file: milliseconds for a workload, else seconds.
  double in_file_unit(double seconds) const { return workload ? seconds * 1e3 : seconds; }
};

/// Reads a graph file (graph/formats/graph_file.h). The error for a missing file gives the nearest file name
/// in the same folder.
Result<OpGraph> open_graph(const std::string& path, const GraphReading& reading = {});

/// Opens a resolved machine, with the costs of a version unless it is a file, which states its own. Errors:
/// those of load_devices(), parse_machine() and look_at_machine(); a missing file, with the nearest file name
/// in the same folder.
Result<DeviceSet> open_resolved_devices(const std::string& devices, const Reserve& reserve = {},
                                        CostVersion costs = kCurrentCosts);
/// Lines for people about this machine: "no --devices: this machine, cpu:0 (2 cores, 22.1 GiB free)", and
/// what is estimated. `reason` may be empty. Empty if it cannot be looked at.
std::vector<std::string> this_machine_notes(std::string_view reason);
/// Resolves and opens what a user wrote.
Result<DeviceSet> open_devices(const std::string& devices, const Reserve& reserve = {},
                               CostVersion costs = kCurrentCosts);

/// Reads and applies rules; an empty path means no rules. Errors: kIo; kInvalid with file and line.
Result<AppliedRules> open_rules(const std::string& path, const OpGraph& graph, const DeviceSet& devices);
/// Opens all inputs. Without --devices the machine is that of the graph file, else this one. Errors: those of
/// the functions above; rules that match nothing or
/// contradict each other; constraints that no device satisfies.
Result<Inputs> open_inputs(const InputOptions& options);
/// Errors (kNoPlacement): provably no placement fits the memory; the error states the shortfall in bytes and
/// the smallest sufficient device. `recomputes`: memory_shortfall() (placement/bounds/feasibility.h).
Result<Unit> must_fit(const Inputs& inputs, bool recomputes = false);

std::string file_name(const std::string& path);

}  // namespace emplace::launcher
