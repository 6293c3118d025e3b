#pragma once
/// The comparison table for terminals.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/machine/cost_trust.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// Result of one method.
struct TableRow {
  std::string method;
  bool found = false;  ///< False: no placement; `note` gives the reason.
  Measurement measurement;
  std::uint64_t evaluations = 0;
  double wall_s = 0;
  std::string note;  ///< Why it does not fit, or a remark about it.
  /// True: measured on an equivalent transformed graph; never marked as the best.
  bool transforms_graph = false;
  /// 95th percentile of its step time under noise [s]; 0: not simulated. A column shows it if a row has it.
  double p95_s = 0;
  /// Ops that run again and tensors that wait elsewhere (graph/memory_plan.h). Columns show them if a row has
  /// any.
  std::size_t recomputed = 0, moved_tensors = 0;
  Placement placement;             ///< Empty if the method has none of the graph's own ops.
  std::optional<StepCosts> costs;  ///< The costs of a simulated step.
  /// The error of its difference to the fastest row, as a share of the step time; 0: they share all costs.
  double difference_error = 0;
};

/// "1.28 s ± 9 %": a step time with the error of its costs; without it if there is none, or of version 1,
/// whose machines were not measured.
std::string step_text(double step_time_s, const std::optional<StepCosts>& costs);

/// Renders rows in the given order and marks the fastest valid one. If some rows were measured, only those
/// are compared, and a column shows the label. Gap: step time / bound − 1. Lines end in '\n'; no control
/// characters. `device_names`: heads of the memory columns. `value`: name of the compared quantity.
std::string render_table(const std::vector<TableRow>& rows, double lower_bound_s,
                         const std::vector<std::string>& device_names,
                         const std::string& value = "step time");

}  // namespace emplace
