#pragma once
/// Content of a run's page. docs/guide/report.md explains each part.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"
#include "placement/schedule.h"
#include "placement/table.h"
#include "record/learning_summary.h"
#include "record/report/learning_curve.h"

namespace emplace::record {

/// One placement of a graph, simulated for the page.
struct ReportStep {
  std::string label;  ///< Name of the method.
  Placement placement;
  Measurement measured;
  Schedule schedule;
  CriticalChain chain;
  double simulating_s = 0;  ///< Duration of the simulation [s].
};

/// A graph and a machine, for the drawings.
struct ReportTask {
  const OpGraph* graph = nullptr;  ///< Graph and machine are not owned; both must outlive the rendering.
  const DeviceSet* devices = nullptr;
  ReportStep step;       ///< Best placement of the run; without one, the best heuristic.
  ReportStep heuristic;  ///< Best heuristic; its placement is empty if there is none.
};

/// A placement measured again on another executor.
struct ReportRemeasured {
  double predicted_s = 0, measured_s = 0;
};
struct ReportSession {
  std::string executor;
  std::vector<std::pair<std::string, std::string>> facts;  ///< Name and value: "rank correlation", "0.97".
  std::vector<ReportRemeasured> points;
};

struct ReportGraph {
  std::string name, sha256;
  std::uint64_t ops = 0, edges = 0;
  std::vector<std::string> devices;   ///< Device names.
  std::vector<TableRow> heuristics;   ///< Heuristics, in config order.
  std::vector<TableRow> learned;      ///< Learned results, by start.
  double lower_bound_s = 0;           ///< Lower bound [s]; 0: unknown.
  std::string bound;                  ///< Name of the bound: "critical path".
  std::vector<LearningCurve> curves;  ///< Learning curves, by start.
  std::vector<std::string> assumed;   ///< What the graph's reader assumed, a sentence each.
  std::string evaluate_command;       ///< Command that reproduces the best step time; may be empty.
  /// One element, or none; without it there are no drawings, and `note` gives the reason.
  std::vector<ReportTask> task;
  std::string note;
  std::vector<ReportSession> remeasured;
};

/// The policy of one start that has updates.
struct ReportPolicy {
  std::string label;  ///< Name of the method and of its start.
  LearningSummary learning;
};

/// All content of a page. A plain value except for the referenced graphs.
struct ReportData {
  std::string run;           ///< Name of the run: its directory's name.
  bool in_progress = false;  ///< True: the run was still in progress when it was read.
  std::string written;       ///< Time of writing: "2026-01-31T12:34:56Z".
  std::vector<ReportGraph> graphs;
  std::vector<ReportPolicy> policies;  ///< Policies, by start; each is for all graphs.
  std::string run_command;             ///< Command that repeats the run.
  std::vector<std::pair<std::string, std::string>> provenance;  ///< Name and value pairs, as shown.
  std::string config_toml;
  std::string status_json;  ///< Last state of its nodes, as the status port reports it; empty: unknown.
};

}  // namespace emplace::record
