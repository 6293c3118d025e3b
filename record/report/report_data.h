#pragma once
/// Everything that the page of a run says. docs/guide/report.md says what each part of it means.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"
#include "placement/schedule.h"
#include "record/report/learning_curve.h"
#include "record/table.h"

namespace emplace::record {

/// One placement of a graph, simulated for the page.
struct ReportStep {
  std::string label;  ///< Its method.
  Placement placement;
  Measurement measured;
  Schedule schedule;
  CriticalChain chain;
  double simulating_s = 0;  ///< What the simulation took.
};

/// A graph and a machine, for the pictures.
struct ReportTask {
  const OpGraph* graph = nullptr;  ///< Neither is owned; both outlive the rendering.
  const DeviceSet* devices = nullptr;
  ReportStep step;      ///< The best placement of the run, or the best baseline where the run has none.
  ReportStep baseline;  ///< The best baseline; its placement is empty if there is none to compare with.
};

/// A placement measured once more on another executor.
struct ReportRemeasured {
  double predicted_s = 0, measured_s = 0;
};
struct ReportSession {
  std::string executor;
  std::vector<std::pair<std::string, std::string>> facts;  ///< "rank correlation", "0.97"
  std::vector<ReportRemeasured> points;
};

struct ReportGraph {
  std::string name, sha256;
  std::uint64_t ops = 0, edges = 0;
  std::vector<std::string> devices;   ///< Names.
  std::vector<TableRow> baselines;    ///< In the order of the config.
  std::vector<TableRow> learned;      ///< By start.
  double lower_bound_s = 0;           ///< 0: not known.
  std::string bound;                  ///< Which one it is: "critical path".
  std::vector<LearningCurve> curves;  ///< By start.
  std::string evaluate_command;       ///< Reproduces the step time of the best placement; may be empty.
  std::vector<ReportTask> task;       ///< One, or none: its pictures are left out, and `note` says why.
  std::string note;
  std::vector<ReportSession> remeasured;
};

/// Everything a page says. A plain value but for the graphs that it points to.
struct ReportData {
  std::string run;        ///< What the run is called: its directory's name.
  bool going_on = false;  ///< It had not ended when this was read.
  std::string written;    ///< "2026-01-31T12:34:56Z"
  std::vector<ReportGraph> graphs;
  std::string run_command;                                      ///< Repeats the run.
  std::vector<std::pair<std::string, std::string>> provenance;  ///< Name and value, as shown.
  std::string config_toml;
};

}  // namespace emplace::record
