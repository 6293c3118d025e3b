#include "record/report/sections.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/text/counts.h"
#include "base/text/words.h"
#include "base/units.h"
#include "record/report/html.h"
#include "record/report/page_files.h"
#include "record/report/verdict.h"

namespace emplace::record {
namespace {

constexpr std::size_t kMaxConfig = 256 << 10;  // [bytes]
constexpr std::size_t kMaxMoves = 20;
constexpr std::size_t kMaxPeaks = 6;  // Limit on devices with a column of their own.

/// Attributes instead of styles: the policy of the live page refuses inline styles.
constexpr const char* kBar =
    R"(<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">)"
    R"(<rect y="2" width="{:.1f}" height="8"/><rect class="bound" x="{:.1f}" width="2.5" height="12"/></svg>)";

std::string card(std::string_view value, std::string_view name, std::string_view tone = "") {
  return element("div", element("dd", value) + element("dt", name),
                 "class=\"card " + std::string{tone} + "\"");
}

std::string command_line(std::string_view what, std::string_view command) {
  return "<p class=\"command\"><span>" + escaped(what) + "</span><code>" + escaped(command) +
         "</code><button type=\"button\" data-copy>Copy</button></p>\n";
}

/// The row of the recommended placement; null: none.
const TableRow* best_row(const ReportGraph& graph, const ReportVerdict& verdict) {
  if (verdict.best_method.empty()) return nullptr;
  return fastest(verdict.kind == ReportVerdict::Kind::kNotBetter ? graph.heuristics : graph.learned);
}

/// " &plusmn; 9 %": the error of a row's costs; empty if it is unknown.
std::string error_of(const TableRow& row) {
  const bool known = row.costs && row.costs->version != CostVersion::k1 && row.costs->error > 0;
  return known ? " &plusmn; " + percent(row.costs->error) : std::string{};
}

std::string cards(const ReportGraph& graph, const ReportVerdict& verdict) {
  using Kind = ReportVerdict::Kind;
  if (verdict.best_method.empty()) return "";
  std::string out = card(seconds(verdict.best_s) + error_of(*best_row(graph, verdict)),
                         "step time, by " + shown(verdict.best_method, 60));
  if (verdict.kind == Kind::kBetter)
    out += card("&minus;" + percent(1 - verdict.best_s / verdict.heuristic_s),
                "compared with " + shown(verdict.heuristic_method, 60), "good");
  if (verdict.kind == Kind::kNotBetter) {
    const TableRow* const learned = fastest(graph.learned);
    out +=
        card(learned == nullptr ? std::string{"none fits"}
                                : "+" + percent(learned->measurement.step_time_s / verdict.heuristic_s - 1),
             "learned placement, compared with " + shown(verdict.heuristic_method, 60), "bad");
  }
  if (graph.lower_bound_s > 0)
    out += card("+" + percent(verdict.best_s / graph.lower_bound_s - 1),
                "above the proven bound, " + seconds(graph.lower_bound_s));
  const Measurement& m = best_row(graph, verdict)->measurement;
  if (!graph.task.empty()) {
    const DeviceSet& devices = *graph.task.front().devices;
    double tightest = 0;
    std::size_t at = 0;
    for (std::size_t d = 0; d < devices.size() && d < m.peak_bytes.size(); ++d) {
      const auto cap = static_cast<double>(devices[static_cast<DeviceId>(d)].memory_bytes);
      const double share = cap > 0 ? static_cast<double>(m.peak_bytes[d]) / cap : 0;
      if (share > tightest) tightest = share, at = d;
    }
    out += card(percent(tightest), "of the memory of " + shown(graph.devices[at], 40) + ", the fullest");
    out += card(format_bytes(m.bytes_moved), "moved between devices each step");
  }
  out += card(thousands(measured_in(graph.curves)), "placements measured");
  return element("dl", out, "class=\"cards\"") + "\n";
}

/// "+1.5 %": how far `seconds` is above `step_time_s`.
std::string above(double seconds, double step_time_s) {
  const double share = seconds / step_time_s - 1;
  return (share < 0 ? "" : "+") + percent(share);
}

std::string methods_table(const ReportGraph& graph, const ReportVerdict& verdict) {
  double slowest = 0;
  std::vector<const TableRow*> rows;
  for (const std::vector<TableRow>* from : {&graph.heuristics, &graph.learned})
    for (const TableRow& row : *from) {
      rows.push_back(&row);
      if (fits(row)) slowest = std::max(slowest, row.measurement.step_time_s);
    }
  const bool each = graph.devices.size() <= kMaxPeaks;
  const bool noisy =
      std::any_of(rows.begin(), rows.end(), [](const TableRow* row) { return row->p95_s > 0; });
  std::string head = "<th scope=\"col\">Method</th><th scope=\"col\" class=\"wide\">Step time</th>";
  if (noisy) head += "<th scope=\"col\">95th percentile, 5 % noise</th>";
  head += "<th scope=\"col\">Above bound</th>";
  for (std::size_t d = 0; each && d < graph.devices.size(); ++d)
    head += element("th", "Peak " + shown(graph.devices[d], 20), "scope=\"col\"");
  if (!each) head += "<th scope=\"col\">Highest peak</th>";
  head += "<th scope=\"col\">Moved</th><th scope=\"col\">Evaluations</th><th scope=\"col\">Time to find</th>";
  const std::size_t columns = (each ? graph.devices.size() : 1) + (noisy ? 5 : 4);
  std::string body;
  const TableRow* const best = best_row(graph, verdict);
  for (const TableRow* row : rows) {
    const Measurement& m = row->measurement;
    std::string cells =
        element("th", shown(row->method, 60) + (row == best ? " <span class=\"mark\">best</span>" : ""),
                "scope=\"row\"");
    if (!row->found) {
      body += element("tr", cells + element("td", shown(row->note),
                                            fmt::format(R"(class="note" colspan="{}")", columns + 1)));
      continue;
    }
    const double share = fits(*row) && slowest > 0 ? m.step_time_s / slowest : 0;
    const double bound = fits(*row) && slowest > 0 ? graph.lower_bound_s / slowest : 0;
    cells += fits(*row) ? element("td",
                                  fmt::format(kBar, share * 100, bound * 100) + "<span>" +
                                      seconds(m.step_time_s) + error_of(*row) + "</span>" +
                                      (m.label == MeasurementLabel::kSimulated
                                           ? std::string{}
                                           : " " + element("span", std::string{label_name(m.label)})),
                                  "class=\"wide\"")
                        : element("td", "does not fit", "class=\"wide misfit\"");
    if (noisy)
      cells += element("td", row->p95_s > 0 && fits(*row) ? above(row->p95_s, m.step_time_s) : std::string{});
    cells += element("td", !fits(*row)               ? "+" + format_bytes(m.bytes_over) + " over"
                           : graph.lower_bound_s > 0 ? above(m.step_time_s, graph.lower_bound_s)
                                                     : std::string{});
    if (each) {
      for (std::size_t d = 0; d < graph.devices.size(); ++d)
        cells += element("td", d < m.peak_bytes.size() ? format_bytes(m.peak_bytes[d]) : std::string{});
    } else {
      const auto highest = std::max_element(m.peak_bytes.begin(), m.peak_bytes.end());
      cells += element("td", highest == m.peak_bytes.end() ? std::string{} : format_bytes(*highest));
    }
    cells += element("td", m.busy_s.empty() ? std::string{} : format_bytes(m.bytes_moved)) +
             element("td", thousands(row->evaluations)) + element("td", seconds(row->wall_s));
    body += element("tr", cells, row == best ? "class=\"best\"" : "") + "\n";
  }
  return "<div class=\"scroll\"><table class=\"methods\"><caption>In config order; learned "
         "placements last</caption><thead>" +
         element("tr", head) + "</thead>\n<tbody>" + body + "</tbody></table></div>\n";
}

std::string moves_section(const ReportGraph& graph, const Moves& moves) {
  const ReportTask& task = graph.task.front();
  const auto name = [&](DeviceId device) { return shown((*task.devices)[device].name, 40); };
  std::string out = element("h3", "Moves compared with " + shown(task.heuristic.label, 60)) + "\n<p>";
  out += thousands(moves.total.ops) + " of " + plural(moves.ops, "op") + " (" +
         percent(moves.ops == 0 ? 0 : static_cast<double>(moves.total.ops) / static_cast<double>(moves.ops)) +
         "; views not counted) are on another device than in the best heuristic, " +
         shown(task.heuristic.label, 60) + ". Their outputs hold " + format_bytes(moves.total.bytes) +
         "; they took " + seconds(static_cast<double>(moves.total.time_from_ns) * 1e-9) + " there and take " +
         seconds(static_cast<double>(moves.total.time_to_ns) * 1e-9) + " here.";
  std::string renamed;
  for (std::size_t d = 0; d < moves.named.size(); ++d) {
    if (moves.named[d] == static_cast<DeviceId>(d)) continue;
    renamed +=
        (renamed.empty() ? "" : ", ") + name(static_cast<DeviceId>(d)) + " as its " + name(moves.named[d]);
  }
  if (!renamed.empty())
    out +=
        " Identical devices are renamed so that the fewest ops move. In the heuristic's names, as below, " +
        renamed + ".";
  out += "</p>\n";
  if (moves.moves.empty()) return out;
  std::string body;
  for (std::size_t i = 0; i < std::min(moves.moves.size(), kMaxMoves); ++i) {
    const Move& move = moves.moves[i];
    body += element("tr", element("th", shown(move.scope.empty() ? "(no scope)" : move.scope, 80),
                                  "scope=\"row\"") +
                              element("td", name(move.from) + " &rarr; " + name(move.to)) +
                              element("td", thousands(move.ops)) + element("td", format_bytes(move.bytes)) +
                              element("td", seconds(static_cast<double>(move.time_from_ns) * 1e-9)) +
                              element("td", seconds(static_cast<double>(move.time_to_ns) * 1e-9))) +
            "\n";
  }
  const std::string shown_of =
      moves.moves.size() > kMaxMoves
          ? fmt::format("The {} heaviest of {} moves", kMaxMoves, thousands(moves.moves.size()))
          : "All moves";
  return out + "<div class=\"scroll\"><table><caption>" + shown_of +
         ", by the time of their ops; time steps of a scope count as one</caption><thead><tr>"
         "<th scope=\"col\">Scope</th><th scope=\"col\">Device</th><th scope=\"col\">Ops</th>"
         "<th scope=\"col\">Outputs</th><th scope=\"col\">Time there</th><th scope=\"col\">Time "
         "here</th></tr></thead>\n<tbody>" +
         body + "</tbody></table></div>\n";
}

std::string chart_section(std::string_view chart, std::string_view title, std::string_view label) {
  return fmt::format("<section data-part=\"{}\">\n", chart) + element("h3", title) +
         "\n<div class=\"chart\" data-chart=\"" + std::string{chart} + "\" role=\"group\" aria-label=\"" +
         escaped(label) + "\"></div>\n</section>\n";
}

std::string remeasured_section(const ReportGraph& graph) {
  std::string out = "<section data-part=\"remeasured\">\n<h3>Measured again</h3>\n";
  for (std::size_t s = 0; s < graph.remeasured.size(); ++s) {
    const ReportSession& session = graph.remeasured[s];
    std::string facts;
    for (const auto& [name, value] : session.facts)
      facts += element("div", element("dd", escaped(value)) + element("dt", escaped(name)), "class=\"card\"");
    out += fmt::format(
        "{}\n{}\n<div class=\"chart\" data-chart=\"scatter\" data-session=\"{}\" role=\"group\" "
        "aria-label=\"Predicted against measured step time\"></div>\n",
        element("h4", "On " + shown(session.executor, 60)), element("dl", facts, "class=\"cards\""), s);
  }
  return out + "</section>\n";
}

/// "a uniform choice between 2 devices has 0.69".
std::string uniform_words(const ReportData& data) {
  const std::size_t devices = data.graphs.front().devices.size();
  return fmt::format("a uniform choice between {} has {:.2f}, a certain one 0", plural(devices, "device"),
                     std::log(static_cast<double>(devices)));
}

}  // namespace

std::string graph_section(const ReportGraph& graph, std::size_t number, const ReportData& data,
                          const std::optional<Moves>& moves) {
  const ReportVerdict verdict = verdict_of(graph, data.in_progress);
  std::string out = fmt::format("<article data-graph=\"{0}\" data-part=\"graph-{0}\">\n", number);
  out += "<section class=\"verdict\" data-part=\"verdict\">\n<h2>" + shown(graph.name, 80) +
         "</h2>\n<p class=\"sentence\">" + escaped(verdict.sentence) + "</p>\n" + cards(graph, verdict);
  for (const std::string& note : graph.assumed) out += element("p", escaped(note)) + "\n";
  if (!graph.evaluate_command.empty()) out += command_line("Measure it again", graph.evaluate_command);
  if (!data.run_command.empty()) out += command_line("Learn it again", data.run_command);
  out += "</section>\n<section data-part=\"methods\">\n<h3>Methods</h3>\n" + methods_table(graph, verdict) +
         "</section>\n";
  if (measured_in(graph.curves) > 0)
    out += chart_section("curve", "Learning curve", "Step time of the placements measured, over the run");
  if (!graph.remeasured.empty()) out += remeasured_section(graph);
  if (graph.task.empty()) {
    out += "<section data-part=\"schedule\">\n<h3>Schedule</h3>\n<p>" +
           escaped(graph.note.empty() ? "No placement to draw yet." : graph.note) + "</p>\n</section>\n";
    return out + "</article>\n";
  }
  out += chart_section("gantt", "Schedule", "Activity of every device and link during one step");
  out += chart_section("memory", "Memory", "Memory in use and capacity of every device during one step");
  out += chart_section("graph", "The graph and its placement",
                       "Scopes of the graph, coloured by device, and the data between them");
  if (moves) out += "<section data-part=\"moves\">\n" + moves_section(graph, *moves) + "</section>\n";
  return out + "</article>\n";
}

std::string policy_section(const ReportData& data) {
  if (data.policies.empty()) return "";
  std::string warnings, body, head = "<th scope=\"col\">Start</th><th scope=\"col\">Updates</th>";
  std::size_t parts = 0;
  for (const ReportPolicy& policy : data.policies) {
    const LearningSummary& learning = policy.learning;
    parts = std::max(parts, learning.entropy.size());
    if (learning.saturation)
      warnings += element("p", "Warning: " + shown(policy.label, 60) + ": " + escaped(learning.warning) + ".",
                          "class=\"going-on\"") +
                  "\n";
    std::string cells =
        element("th", shown(policy.label, 60), "scope=\"row\"") + element("td", thousands(learning.updates));
    for (const double one : learning.entropy) cells += element("td", entropy_text({&one, 1}));
    body += element("tr", cells) + "\n";
  }
  for (std::size_t part = 1; part <= parts; ++part)
    head += element("th", std::to_string(part), "scope=\"col\"");
  return "<section data-part=\"policy\">\n<h2>Policy</h2>\n" + warnings +
         "<div class=\"scroll\"><table><caption>Mean entropy per choice [nat] in each tenth of the "
         "updates; " +
         uniform_words(data) + "</caption><thead>" + element("tr", head) + "</thead>\n<tbody>" + body +
         "</tbody></table></div>\n</section>\n";
}

std::string provenance_section(const ReportData& data) {
  std::string rows;
  for (const auto& [name, value] : data.provenance)
    rows +=
        element("tr", element("th", escaped(name), "scope=\"row\"") + element("td", escaped(value))) + "\n";
  std::string config = data.config_toml.substr(0, kMaxConfig);
  if (config.size() < data.config_toml.size()) config += "\n…";
  return "<section class=\"provenance\" data-part=\"provenance\">\n<h2>Provenance</h2>\n<div "
         "class=\"scroll\"><table "
         "class=\"facts\"><caption>"
         "Sources of this page</caption><tbody>" +
         rows + "</tbody></table></div>\n<details><summary>The config, as run</summary><pre>" +
         escaped(config) +
         "</pre></details>\n<details><summary>The charts use dygraphs 2.2.1 (MIT)</summary><pre>" +
         escaped(page::kDygraphsLicence) + "</pre></details>\n</section>\n";
}

}  // namespace emplace::record
