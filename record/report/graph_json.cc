#include "record/report/graph_json.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "placement/machine/cost_model.h"
#include "record/report/json_column.h"
#include "record/report/scope_map.h"
#include "record/report/verdict.h"

namespace emplace::record {
namespace {

using nlohmann::json;

/// Whole nanoseconds; null: unknown.
json ns_or_null(double seconds) { return seconds > 0 ? json(std::llround(seconds * 1e9)) : json(nullptr); }

json curve_json(const LearningCurve& curve) {
  json percentiles = json::array();
  for (std::size_t p = 0; p < kCurvePercentiles.size(); ++p)
    percentiles.push_back(
        column(curve.points, [&](const CurvePoint& point) { return ns_or_null(point.step_time_s[p]); }));
  const bool timed = !curve.points.empty() && curve.points.back().wall_s > 0;
  const auto wall_ms = [](const CurvePoint& point) { return std::llround(point.wall_s * 1e3); };
  return {{"label", printable(curve.label)},
          {"x", column(curve.points, &CurvePoint::measurements)},
          {"wall", timed ? column(curve.points, wall_ms) : json(nullptr)},
          {"count", column(curve.points, &CurvePoint::count)},
          {"valid", column(curve.points, &CurvePoint::valid)},
          {"best", column(curve.points, [](const CurvePoint& point) { return ns_or_null(point.best_s); })},
          {"percentiles", std::move(percentiles)}};
}

}  // namespace

json graph_json(const ReportGraph& graph, BudgetShares& shares, std::optional<Moves>& moves) {
  const auto device = [](const std::string& name) { return json{{"name", printable(name)}}; };
  json j{{"devices", column(graph.devices, device)},
         {"lines", json::array()},
         {"curves", column(graph.curves, curve_json)},
         {"task", nullptr},
         {"bound", ns_or_null(graph.lower_bound_s)}};
  for (const TableRow& row : graph.heuristics)
    if (fits(row))
      j["lines"].push_back(
          {{"label", printable(row.method)}, {"ns", std::llround(row.measurement.step_time_s * 1e9)}});
  const auto predicted_ns = [](const ReportRemeasured& point) {
    return std::llround(point.predicted_s * 1e9);
  };
  const auto measured_ns = [](const ReportRemeasured& point) { return std::llround(point.measured_s * 1e9); };
  for (const ReportSession& session : graph.remeasured)
    j["remeasured"].push_back({{"predicted", column(session.points, predicted_ns)},
                               {"measured", column(session.points, measured_ns)}});
  if (graph.task.empty()) return j;
  const ReportTask& task = graph.task.front();
  for (std::size_t d = 0; d < task.devices->size(); ++d)
    j["devices"][d]["memory"] = (*task.devices)[static_cast<DeviceId>(d)].memory_bytes;
  const CostTable costs{*task.graph, *task.devices};
  const ScopeMap scopes =
      scope_map(*task.graph, costs, task.devices->size(), task.step.placement, task.step.schedule,
                shares.part(shares.left().scopes), shares.part(shares.left().edges));
  json types = json::array();
  for (std::size_t t = 0; t < task.graph->num_types(); ++t)
    types.push_back(printable(task.graph->type_name(static_cast<TypeId>(t))));
  json steps = json::array();
  for (const ReportStep* step : {&task.step, &task.heuristic}) {
    if (step->placement.empty()) continue;
    StepBudget budget = shares.step(step->schedule);
    steps.push_back(step_json(*task.graph, *task.devices, *step, scopes, budget));
    shares.names_left(budget.name_bytes);
  }
  j["task"] = {{"types", std::move(types)}, {"map", scope_json(scopes)}, {"steps", std::move(steps)}};
  if (!task.heuristic.placement.empty())
    moves = moves_between(*task.graph, *task.devices, costs, scopes.scopes, scopes.scope_of_op,
                          task.heuristic.placement, task.step.placement);
  return j;
}

}  // namespace emplace::record
