#include "launcher/placing/answer_output.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/placing/jitter_options.h"
#include "launcher/placing/results.h"
#include "placement/machine/cost_model.h"

namespace emplace::launcher {
namespace {

Json order_gain_json(const Answer& answer) {
  return {{"issue_order_best_s", answer.issue_seconds > 0 ? answer.issue_seconds : kJsonNull},
          {"issue_order_step_time_s", answer.issue.valid ? answer.issue.step_time_s : kJsonNull},
          {"issue_order_peak_memory_bytes", answer.issue.peak_bytes}};
}

/// The answer and the placements that differ from it.
Json placements_json(const Answer& answer, const PlacementOutput& output) {
  auto placements = Json::array();
  const auto add = [&](std::size_t k, const Measurement& measured) {
    placements.push_back({{"placement", text_or_null(output.path.empty() ? "" : output.path_of(k))},
                          {"step_time_s", measured.step_time_s}});
  };
  add(1, answer.measurement);
  for (std::size_t k = 0; k < answer.others.size(); ++k) add(k + 2, answer.others[k].measurement);
  return placements;
}

Json findings_json(const Answer& answer) {
  auto findings = Json::array();
  for (const Finding& finding : answer.findings)
    findings.push_back(
        {{"method", finding.method}, {"step_time_s", finding.seconds}, {"at_s", finding.at_s}});
  return findings;
}

/// Returns the first, last and best of a policy's pass: "pass       start 3 s, last 2 s, best 1 s".
std::string pass_line(const Answer& answer) {
  const auto shown = [](double seconds) {
    return std::isinf(seconds) ? std::string{"does not fit"} : format_seconds(seconds);
  };
  return fmt::format("\npass       start {}, last {}, best {}", shown(answer.pass_s.front()),
                     shown(answer.pass_s.back()), shown(std::ranges::min(answer.pass_s)));
}

/// What a memory plan decides, as sums.
struct PlanSums {
  double recompute_s = 0;
  std::int64_t moved_bytes = 0;
};
PlanSums sums_of(const Answer& answer, const Inputs& inputs) {
  PlanSums sums;
  const CostTable costs{inputs.graph, inputs.devices};
  for (const OpId op : answer.plan.recompute)
    sums.recompute_s += static_cast<double>(costs.ns(answer.placement[index(op)], op)) * 1e-9;
  for (const MovedTensor& move : answer.plan.moved) sums.moved_bytes += inputs.graph.bytes(move.tensor);
  return sums;
}

Json plan_json(const Answer& answer, const Inputs& inputs) {
  const PlanSums sums = sums_of(answer, inputs);
  auto recompute = Json::array(), moves = Json::array();
  for (const OpId op : answer.plan.recompute) recompute.push_back(std::string{inputs.graph.name(op)});
  for (const MovedTensor& move : answer.plan.moved) {
    const OpId op = inputs.graph.producer(move.tensor);
    moves.push_back({{"tensor", std::string{inputs.graph.name(op)}},
                     {"output", index(move.tensor) - index(inputs.graph.first_output(op))},
                     {"to", inputs.devices[move.to].name},
                     {"after", move.after == kNoOp ? Json() : Json(inputs.graph.name(move.after))}});
  }
  return {{"recompute", std::move(recompute)},
          {"recompute_s", sums.recompute_s},
          {"move", std::move(moves)},
          {"moved_bytes", sums.moved_bytes}};
}

/// Returns what is decided: "memory     recomputes 40 ops (3 ms), moves 12 tensors (2.5 GiB)".
std::string plan_line(const Answer& answer, const Inputs& inputs) {
  const MemoryPlan& plan = answer.plan;
  if (plan.empty()) return "memory     everything is kept; no other decision was better";
  const PlanSums sums = sums_of(answer, inputs);
  std::string text;
  if (!plan.recompute.empty())
    text = fmt::format("recomputes {} ops ({})", plan.recompute.size(), format_seconds(sums.recompute_s));
  if (!plan.moved.empty())
    text += fmt::format("{}moves {} tensors ({})", text.empty() ? "" : ", ", plan.moved.size(),
                        format_bytes(sums.moved_bytes));
  return "memory     " + text;
}

/// Returns what the order changed: "order      searched; in issue order this placement takes 3 s".
std::string order_line(const Answer& answer, const Inputs& inputs) {
  if (answer.order.empty()) return "order      issue; no other order was better";
  std::string text = "order      searched; in issue order this placement ";
  text += answer.issue.valid ? "takes " + format_seconds(answer.issue.step_time_s)
                             : "does not fit: " + misfit(answer.issue, inputs.devices);
  return text + (answer.issue_seconds > 0
                     ? ", and the best one found takes " + format_seconds(answer.issue_seconds)
                     : ", and none was found that fits");
}

std::string best_of_lines(const Answer& answer, const AnswerFacts& facts) {
  std::string text =
      fmt::format("\nbest of    {} of {} found", 1 + answer.others.size(), facts.request.best_of);
  for (std::size_t k = 0; k < answer.others.size(); ++k)
    text += "\n           " + format_seconds(answer.others[k].measurement.step_time_s) +
            (facts.output.path.empty() ? "" : ", " + printable(facts.output.path_of(k + 2)));
  return text;
}

}  // namespace

Json answer_json(const Answer& answer, const AnswerFacts& facts) {
  const Request& request = facts.request;
  const double seconds = answer.measurement.step_time_s;
  Json json{{"measured", measured_json(answer.measurement, facts.inputs, facts.executor)},
            {"method", answer.method},
            {"placement", text_or_null(facts.output.path)},
            {"objective", word_of(request.judge.objective)},
            {"objective_value", facts.inputs.in_file_unit(seconds)},
            {"lower_bound_s", facts.bound.seconds},
            {"bound", word_of(facts.bound.proof)},
            {"optimal", reaches_bound(seconds, facts.bound.seconds)},
            {"evaluations", answer.evaluations},
            {"wall_s", facts.wall_s},
            {"slower_than_single_device", facts.slower_than_single},
            {"order", answer.order.empty() ? "issue" : "search"}};
  if (request.allowed().memory()) json["memory_plan"] = plan_json(answer, facts.inputs);
  if (request.allowed().order) json["order_gain"] = order_gain_json(answer);
  if (facts.steps) json["jitter"] = jitter_json(*facts.steps, *request.noise);
  if (facts.fastest_steps)
    json["robust"] = Json{{"fastest_step_time_s", answer.fastest.front().measurement.step_time_s},
                          {"fastest_jitter", jitter_json(*facts.fastest_steps, *request.noise)}};
  if (!answer.pass_s.empty()) json["pass_s"] = answer.pass_s;  // Infinity becomes null.
  if (request.best_of > 1) json["placements"] = placements_json(answer, facts.output);
  if (!answer.notes.empty()) json["note"] = joined(answer.notes);
  json["findings"] = findings_json(answer);
  add_pipeline(json, facts.pipeline);
  if (facts.costs) json["measured"]["costs"] = json["costs"] = costs_json(*facts.costs);
  const Inputs& inputs = facts.inputs;
  add_assumptions(json, inputs.graph);
  if (std::string note = timing_note(inputs.graph, inputs.devices, inputs.constraints); !note.empty())
    json["assumed"].push_back(std::move(note));
  return json;
}

std::string answer_text(const Answer& answer, const AnswerFacts& facts) {
  const double seconds = answer.measurement.step_time_s;
  std::string text = "method     " + answer.method;
  if (!answer.findings.empty()) text += ", after " + format_seconds(answer.findings.back().at_s);
  if (!answer.notes.empty()) text += "\n           " + joined(answer.notes);
  text += "\n" + measured_text(answer.measurement, facts.inputs, {}, facts.costs) +
          pipeline_line(facts.pipeline) + "bound      ";
  text += facts.bound.seconds > 0
              ? format_seconds(facts.bound.seconds) + ", the " + std::string{word_of(facts.bound.proof)}
              : std::string{"none is proven for this simulator"};
  if (facts.request.allowed().memory()) text += "\n" + plan_line(answer, facts.inputs);
  if (facts.request.allowed().order) text += "\n" + order_line(answer, facts.inputs);
  if (facts.steps) text += "\n" + jitter_text(*facts.steps, *facts.request.noise, seconds);
  if (facts.fastest_steps) {
    const double fastest_s = answer.fastest.front().measurement.step_time_s;
    text += fmt::format("\nfastest    {} without noise ({:+.1f} %), 95th percentile {}",
                        format_seconds(fastest_s), 100 * (fastest_s / seconds - 1),
                        format_seconds(facts.fastest_steps->quantile(0.95)));
  }
  if (!answer.pass_s.empty()) text += pass_line(answer);
  if (facts.request.best_of > 1) text += best_of_lines(answer, facts);
  if (reaches_bound(seconds, facts.bound.seconds))
    text += "\noptimal    no placement is better: this one reaches the bound";
  return text + (facts.output.path.empty() ? "" : "\nwritten    " + printable(facts.output.path));
}

}  // namespace emplace::launcher
