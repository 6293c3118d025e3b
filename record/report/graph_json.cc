#include "record/report/graph_json.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "placement/machine/cost_model.h"
#include "record/report/scope_map.h"
#include "record/report/verdict.h"

namespace emplace::record {
namespace {

using nlohmann::json;

json curve_json(const LearningCurve& curve) {
  json x = json::array(), wall = json::array(), count = json::array(), valid = json::array(),
       best = json::array(), percentiles = json::array();
  const auto number = [](double seconds) {
    return seconds > 0 ? json(std::llround(seconds * 1e9)) : json(nullptr);
  };
  for (std::size_t p = 0; p < kCurvePercentiles.size(); ++p) percentiles.push_back(json::array());
  for (const CurvePoint& point : curve.points) {
    x.push_back(point.measurements);
    wall.push_back(std::llround(point.wall_s * 1e3));
    count.push_back(point.count);
    valid.push_back(point.valid);
    best.push_back(number(point.best_s));
    for (std::size_t p = 0; p < kCurvePercentiles.size(); ++p)
      percentiles[p].push_back(number(point.step_time_s[p]));
  }
  const bool timed = !curve.points.empty() && curve.points.back().wall_s > 0;
  return {{"label", printable(curve.label)},
          {"x", std::move(x)},
          {"wall", timed ? std::move(wall) : json(nullptr)},
          {"count", std::move(count)},
          {"valid", std::move(valid)},
          {"best", std::move(best)},
          {"percentiles", std::move(percentiles)}};
}

}  // namespace

json graph_json(const ReportGraph& graph, BudgetShares& shares, std::optional<Moves>& moves) {
  json j{{"devices", json::array()},
         {"lines", json::array()},
         {"curves", json::array()},
         {"task", nullptr},
         {"bound", graph.lower_bound_s > 0 ? json(std::llround(graph.lower_bound_s * 1e9)) : json(nullptr)}};
  for (const std::string& name : graph.devices) j["devices"].push_back({{"name", printable(name)}});
  for (const TableRow& row : graph.heuristics)
    if (fits(row))
      j["lines"].push_back(
          {{"label", printable(row.method)}, {"ns", std::llround(row.measurement.step_time_s * 1e9)}});
  for (const LearningCurve& curve : graph.curves) j["curves"].push_back(curve_json(curve));
  for (const ReportSession& session : graph.remeasured) {
    json predicted = json::array(), measured = json::array();
    for (const ReportRemeasured& point : session.points) {
      predicted.push_back(std::llround(point.predicted_s * 1e9));
      measured.push_back(std::llround(point.measured_s * 1e9));
    }
    j["remeasured"].push_back({{"predicted", std::move(predicted)}, {"measured", std::move(measured)}});
  }
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
