#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"
#include "executor/sim/explanation.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/placing/dear_ops.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/memory_decisions.h"
#include "launcher/placing/memory_over_time.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "placement/op_pattern.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kDeviceColumns =
    6;  ///< Maximum number of device columns; more devices show only the best other one.

std::string change_text(double seconds) {
  if (seconds == 0) return "same";
  return (seconds < 0 ? "-" : "+") + format_seconds(std::abs(seconds));
}

/// The data that an explanation is printed from.
struct Subject {
  const Inputs& setting;
  const Explanation& explanation;
  /// The placement in issue order, if its file lists another one; else null.
  const Measurement* in_issue_order = nullptr;
  const MemoryOverTime& memory;
  const std::optional<MemoryDecisions>& decisions;  ///< None: the file has no memory plan.
  StepCosts costs;
  bool by_op = false;
  std::size_t shown = 0;

  std::string device(std::size_t d) const { return setting.devices[static_cast<DeviceId>(d)].name; }
  /// Returns the rules that decided a part's devices, each once.
  std::vector<std::string> deciding(const ExplainedPart& part) const {
    std::vector<std::string> out;
    for (const auto* decided : {&setting.rules.device_rule, &setting.rules.colocation_rule}) {
      for (const OpId op : part.ops) {
        const std::uint32_t rule = decided->empty() ? kNoRule : (*decided)[index(op)];
        if (rule == kNoRule) continue;
        std::string text = setting.rules.rules[rule].described();
        if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
      }
    }
    return out;
  }
  /// Returns the part's devices: "gpu:0", or "gpu:0 120, gpu:1 30" (ops per device).
  std::string home(const ExplainedPart& part) const {
    std::string text;
    const bool one = std::count(part.ops_on.begin(), part.ops_on.end(), std::size_t{0}) + 1 ==
                     static_cast<std::ptrdiff_t>(part.ops_on.size());
    for (std::size_t d = 0; d < part.ops_on.size(); ++d) {
      if (part.ops_on[d] == 0) continue;
      text += (text.empty() ? "" : ", ") + printable(device(d), 20);
      if (!one) text += fmt::format(" {}", part.ops_on[d]);
    }
    return text;
  }
  double change_s(const ExplainedPart::There& there) const {
    return there.measured.step_time_s - explanation.measured.step_time_s;
  }
  /// Returns the other device, among those where the part fits, that gives the shortest step.
  std::size_t best_other(const ExplainedPart& part) const {
    std::size_t best = part.there.size();
    for (std::size_t d = 0; d < part.there.size(); ++d) {
      const auto& there = part.there[d];
      if (!there.allowed || there.same || !there.measured.valid) continue;
      if (best == part.there.size() || change_s(there) < change_s(part.there[best])) best = d;
    }
    return best;
  }
  std::string verdict(const ExplainedPart& part) const {
    const std::vector<std::string> because = deciding(part);
    const std::size_t best = best_other(part);
    if (best == part.there.size()) {
      const auto other = [](const ExplainedPart::There& there) { return there.allowed && !there.same; };
      const bool elsewhere = std::any_of(part.there.begin(), part.there.end(), other);
      const std::string why = because.empty() ? "" : ": " + because.front();
      return elsewhere ? "fits on no other device" + why : "allowed on no other device" + why;
    }
    const double change = change_s(part.there[best]);
    const std::string rule = because.empty() ? "" : "; " + because.front();
    if (change < 0 && explanation.measured.valid)
      return printable(device(best), 20) + " would save " + format_seconds(-change) + rule;
    return (explanation.measured.valid ? "best here" : "see the columns for where it fits") + rule;
  }
};

/// Returns what the order of the placement file changed: step time and peaks, beside those in issue order.
std::string order_text(const Subject& subject) {
  const Measurement &here = subject.explanation.measured, &issue = *subject.in_issue_order;
  std::string text = "order: from the placement file; in issue order the step takes " +
                     format_seconds(issue.step_time_s) + " (" +
                     change_text(issue.step_time_s - here.step_time_s) + ")";
  if (!issue.valid) text += " and does not fit: " + misfit(issue, subject.setting.devices);
  text += "\npeak memory, and in issue order:";
  for (std::size_t d = 0; d < here.peak_bytes.size(); ++d)
    text += (d == 0 ? " " : ", ") + printable(subject.device(d), 20) + " " +
            format_bytes(here.peak_bytes[d]) + " (" + format_bytes(issue.peak_bytes[d]) + ")";
  return text;
}

std::string subject_text(const Subject& subject) {
  const Explanation& explanation = subject.explanation;
  const std::size_t num_devices = subject.setting.devices.size();
  const bool wide = num_devices <= kDeviceColumns;
  std::vector<std::vector<std::string>> rows{
      {subject.by_op ? "op" : "scope", "on", "ops", "time", "critical", "state", "writes"}};
  for (std::size_t d = 0; wide && d < num_devices; ++d)
    rows[0].push_back("on " + printable(subject.device(d), 20));
  if (!wide) rows[0].push_back("best other");
  rows[0].push_back("");
  for (std::size_t p = 0; p < subject.shown; ++p) {
    const ExplainedPart& part = explanation.parts[p];
    std::vector<std::string> row{printable(part.name, 48),
                                 subject.home(part),
                                 std::to_string(part.ops.size()),
                                 format_seconds(part.time_s),
                                 part.critical_s > 0 ? format_seconds(part.critical_s) : "-",
                                 format_bytes(part.state_bytes),
                                 format_bytes(part.output_bytes)};
    const auto change = [&](std::size_t d) -> std::string {
      const auto& there = part.there[d];
      return there.same              ? "here"
             : !there.allowed        ? "no"
             : !there.measured.valid ? "no room"
                                     : change_text(subject.change_s(there));
    };
    for (std::size_t d = 0; wide && d < num_devices; ++d) row.push_back(change(d));
    if (!wide) {
      const std::size_t best = subject.best_other(part);
      row.push_back(best == num_devices ? "-" : printable(subject.device(best), 20) + " " + change(best));
    }
    row.push_back(subject.verdict(part));
    rows.push_back(std::move(row));
  }
  const CriticalChain& chain = explanation.chain;
  std::string text = "step " + step_text(explanation.measured.step_time_s, subject.costs);
  if (!explanation.measured.valid)
    text += ", which does not fit: " + misfit(explanation.measured, subject.setting.devices);
  if (subject.in_issue_order != nullptr) text += "\n" + order_text(subject);
  text += "\ncritical chain: " + format_seconds(chain.ops_s) + " of ops and " +
          format_seconds(chain.transfers_s) + " of transfers; " + format_seconds(chain.behind_engine_s) +
          " of these waited for a busy device, not for their inputs\n" + subject.memory.as_text();
  if (subject.decisions && !subject.by_op) text += "\n" + subject.decisions->as_text();
  text += "\n";
  for (const std::string& line : aligned(rows, true)) text += line + "\n";
  if (explanation.parts.size() > subject.shown)
    text += fmt::format("and {} more (--top)\n", explanation.parts.size() - subject.shown);
  text +=
      "\ncritical: time on the chain of ops and transfers that determines the step time, including transfers "
      "of the ops' outputs\n"
      "on DEVICE: change of the step time if the whole part, and all ops co-located with it, ran there\n";
  for (const std::string& line : subject.setting.rules.lines()) text += line + "\n";
  text.pop_back();
  return text;
}

/// What the step time is with a part on each device.
Json elsewhere_json(const Subject& subject, const ExplainedPart& part) {
  auto elsewhere = Json::array();
  for (std::size_t d = 0; d < part.there.size(); ++d) {
    const auto& there = part.there[d];
    elsewhere.push_back({{"device", subject.device(d)},
                         {"here", there.same},
                         {"allowed", there.allowed},
                         {"time_s", there.time_s},
                         {"valid", there.allowed && there.measured.valid},
                         {"step_time_s", there.allowed ? there.measured.step_time_s : kJsonNull},
                         {"change_s", there.allowed ? subject.change_s(there) : kJsonNull}});
  }
  return elsewhere;
}

Json part_json(const Subject& subject, const ExplainedPart& part) {
  Json item{{subject.by_op ? "op" : "scope", part.name}};
  if (subject.by_op) item["type"] = subject.setting.graph.type_name(part.ops.front());
  item["ops"] = part.ops.size();
  auto on = Json::object();
  for (std::size_t d = 0; d < part.ops_on.size(); ++d)
    if (part.ops_on[d] > 0) on[subject.device(d)] = part.ops_on[d];
  item["on"] = std::move(on);
  if (subject.by_op) item["device"] = subject.home(part);
  item["time_s"] = part.time_s;
  item["critical_s"] = part.critical_s;
  item["critical"] = part.critical_s > 0;
  item["state_bytes"] = part.state_bytes;
  item["output_bytes"] = part.output_bytes;
  item["companions"] = part.companions;
  item["rules"] = subject.deciding(part);
  item["elsewhere"] = elsewhere_json(subject, part);
  item["verdict"] = subject.verdict(part);
  return item;
}

Json subject_json(const Subject& subject) {
  const Explanation& explanation = subject.explanation;
  auto items = Json::array();
  for (std::size_t p = 0; p < subject.shown; ++p) items.push_back(part_json(subject, explanation.parts[p]));
  auto rules = Json::array();
  for (std::size_t r = 0; r < subject.setting.rules.rules.size(); ++r)
    rules.push_back({{"rule", subject.setting.rules.rules[r].described()},
                     {"matched", subject.setting.rules.matched[r]}});
  Json json{{"graph", subject.setting.graph.name()},
            {"step_time_s", explanation.measured.step_time_s},
            {"valid", explanation.measured.valid},
            {"costs", costs_json(subject.costs)}};
  if (!explanation.measured.valid) json["reason"] = misfit(explanation.measured, subject.setting.devices);
  json["order"] = subject.in_issue_order != nullptr ? "placement file" : "issue";
  json["peak_memory_bytes"] = explanation.measured.peak_bytes;
  json["memory"] = subject.memory.devices_json();
  if (Json without = subject.memory.without_plan_json(); !without.is_null())
    json["without_plan"] = std::move(without);
  if (subject.decisions) {
    json["decisions"] = subject.decisions->decisions_json();
    json["decisions_by_block"] = subject.decisions->blocks_json();
  }
  if (subject.in_issue_order != nullptr)
    json["in_issue_order"] = Json{{"step_time_s", subject.in_issue_order->step_time_s},
                                  {"valid", subject.in_issue_order->valid},
                                  {"peak_memory_bytes", subject.in_issue_order->peak_bytes}};
  json["critical_path"] = Json{{"ops_s", explanation.chain.ops_s},
                               {"transfers_s", explanation.chain.transfers_s},
                               {"gaps_s", explanation.chain.gaps_s},
                               {"behind_engine_s", explanation.chain.behind_engine_s}};
  json["items"] = std::move(items);
  json["not_shown"] = explanation.parts.size() - subject.shown;
  json["rules"] = std::move(rules);
  return json;
}

class Explain final : public Command {
 public:
  Explain()
      : Command{"explain", "Show where ops run and why, and the step time if they ran elsewhere",
                "emplace explain placement.json --graph configs/graphs/nmt-2layer-bs64.json.gz --devices "
                "configs/devices/quickstart.toml"} {}
  void declare(Options& options) override {
    options.operand("PLACEMENT", placement_, "Placement file")
        .required("--graph,-g", inputs_.graph, "Graph file of the placement")
        .non_empty("--devices,-d", inputs_.devices, kDevicesHelp)
        .option("--op", op_, "RE2 expression; explains each op whose name matches (default: each scope)")
        .option("--top", top_, "Number of ops or scopes to explain, most important first")
        .flag("--costs", costs_,
              "List the ops that take longest instead: their kernels, the share of the device's peak that "
              "they reach, and where their times are from")
        .option("--rules", inputs_.rules, "Rules file that the placement obeys (default: none)")
        .option("--reserve", inputs_.reserve, "Memory kept free per device, e.g. 10% or 2GiB (default: 0%)")
        .option("--dispatch", inputs_.dispatch, "Order in which a device runs ready ops: program or fifo");
    declare_costs(options, inputs_);
    declare_reading(options, inputs_.reading);
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  /// Returns the ops whose names match, or all. Errors: kInvalid for a malformed expression, or one that
  /// matches no op (the error gives the nearest name).
  Result<std::vector<OpId>> chosen_ops(const OpGraph& graph) const;
  /// Returns the parts to explain. Errors: those of chosen_ops().
  Result<std::vector<ExplainedPart>> parts(const OpGraph& graph) const;

  InputOptions inputs_;
  std::string placement_, op_;
  std::uint64_t top_ = 12;
  bool costs_ = false;
};

Result<std::vector<OpId>> Explain::chosen_ops(const OpGraph& graph) const {
  const std::string where = "--op '" + printable(op_, 60) + "'";
  if (auto checked = check_expression(op_); !checked) return invalid(where, checked.error().context);
  const OpPattern pattern{.name = op_};
  const std::vector<bool> matching = ops_matching(graph, pattern);
  std::vector<OpId> ops;
  for (std::uint32_t i = 0; i < matching.size(); ++i)
    if (matching[i]) ops.push_back(OpId{i});
  if (ops.empty()) return invalid(where, "matches no op", nearest_to(graph, pattern));
  return ops;
}

Result<std::vector<ExplainedPart>> Explain::parts(const OpGraph& graph) const {
  if (op_.empty()) return parts_by_scope(graph);
  EMPLACE_TRY_ASSIGN(const auto ops, chosen_ops(graph));
  return parts_by_op(graph, ops);
}

Result<ExitStatus> Explain::run(Console& console) {
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(inputs_));
  for (const std::string& note : inputs.machine_notes) console.note(note);
  EMPLACE_TRY_ASSIGN(auto opened, open_placement(placement_, inputs, console));
  if (inputs.judge.strategy.pipelined()) EMPLACE_TRY(obey_strategy(inputs, opened.placement));
  Measurement in_issue_order;
  EMPLACE_TRY(Simulator(inputs.graph, inputs.devices, inputs.judge.simulator)
                  .measure(opened.placement, in_issue_order));
  EMPLACE_TRY_ASSIGN(const auto order, obey_order(placement_, inputs, opened, console));
  const Placement& placement = opened.placement;
  if (costs_) {
    EMPLACE_TRY_ASSIGN(const auto ops, chosen_ops(inputs.graph));
    const DearOps dear{inputs, placement, ops, top_};
    console.print(console.json() ? json_text(dear.as_json()) : dear.as_text());
    return ExitStatus::kDone;
  }
  EMPLACE_TRY_ASSIGN(auto to_explain, parts(inputs.graph));
  EMPLACE_TRY_ASSIGN(const auto explanation,
                     explain_placement(inputs.graph, inputs.devices, inputs.constraints, placement,
                                       std::move(to_explain), top_, inputs.judge.simulator));
  Measurement measured;
  Schedule step;
  EMPLACE_TRY(
      Simulator(inputs.graph, inputs.devices, inputs.judge.simulator).trace(placement, measured, step));
  std::optional<Measurement> kept;
  std::optional<MemoryDecisions> decisions;
  if (opened.unplanned) {
    kept = opened.unplanned->measured;
    EMPLACE_TRY_ASSIGN(auto priced, MemoryDecisions::priced(*opened.unplanned, in_issue_order, inputs.devices,
                                                            inputs.judge.simulator, top_));
    decisions.emplace(std::move(priced));
  }
  const MemoryOverTime memory{inputs.graph, inputs.devices, measured, step, std::move(kept)};
  const std::size_t shown = std::min<std::size_t>(top_, explanation.parts.size());
  const Subject subject{inputs,       explanation, order.empty() ? nullptr : &in_issue_order,
                        memory,       decisions,   PlacementCosts{inputs.graph, inputs.devices}.of(placement),
                        !op_.empty(), shown};
  console.print(console.json() ? json_text(subject_json(subject)) : subject_text(subject));
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_explain() { return std::make_unique<Explain>(); }

}  // namespace emplace::launcher
