#include "record/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/hash.h"
#include "base/text/words.h"
#include "base/units.h"
#include "record/report/moves.h"
#include "record/report/page.h"
#include "record/report/scope_map.h"
#include "record/report/step_json.h"

namespace emplace::record {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = 4'900'000;    // Of a page.
constexpr std::size_t kMostConfig = 256 * 1024;  // [bytes]
constexpr std::size_t kMostMoves = 20;
constexpr std::size_t kMostPeaks = 6;  // Devices with a column of their own.

/// What a page holds of all graphs together; made less until it fits.
struct PageBudget {
  std::size_t blocks = 200'000, name_bytes = 2'000'000, scopes = 3'000, edges = 12'000,
              memory_levels = 12'000;
};

std::string mended(std::string_view text) {
  if (is_utf8(text)) return std::string{text};
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

/// As the content of an element or of an attribute in double quotes. Newlines stay.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : mended(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\0':
        out += "\xEF\xBF\xBD";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// A name from a file, in an element: control characters are shown, not kept.
std::string shown(std::string_view name, std::size_t most = 200) { return escaped(printable(name, most)); }

/// JSON in which nothing can end a script element, or begin one.
std::string inert(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else if (text.compare(i, 3, "\xE2\x80\xA8") == 0 || text.compare(i, 3, "\xE2\x80\xA9") == 0) {
      out += text[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string percent(double share) {
  return formatted(share != 0 && std::abs(share) < 0.00995 ? "%.1f %%" : "%.0f %%", share * 100);
}

/// As the command line has it, but for the sign of a micro.
std::string seconds(double value) {
  std::string text = format_seconds(value);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 1, "µ");
  return text;
}

/// "13,581".
std::string thousands(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string plural(std::uint64_t count, std::string_view one) {
  return thousands(count) + " " + std::string{one} + (count == 1 ? "" : "s");
}

bool fits(const TableRow& row) { return row.found && row.measurement.valid; }

const TableRow* fastest(const std::vector<TableRow>& rows) {
  const TableRow* best = nullptr;
  for (const TableRow& row : rows)
    if (fits(row) && (best == nullptr || row.measurement.step_time_s < best->measurement.step_time_s))
      best = &row;
  return best;
}

std::uint64_t measured_in(const std::vector<LearningCurve>& curves) {
  std::uint64_t count = 0;
  for (const LearningCurve& curve : curves)
    if (!curve.points.empty()) count += curve.points.back().measurements;
  return count;
}

std::string element(std::string_view tag, std::string_view content, std::string_view attributes = "") {
  std::string out = "<" + std::string{tag};
  if (!attributes.empty()) out.append(" ").append(attributes);
  return out + ">" + std::string{content} + "</" + std::string{tag} + ">";
}

std::string card(std::string_view value, std::string_view name, std::string_view tone = "") {
  return element("div", element("dd", value) + element("dt", name),
                 "class=\"card " + std::string{tone} + "\"");
}

std::string command_line(std::string_view what, std::string_view command) {
  return "<p class=\"command\"><span>" + escaped(what) + "</span><code>" + escaped(command) +
         "</code><button type=\"button\" data-copy>Copy</button></p>\n";
}

/// How many devices run something, and which do not; nothing if that is not known.
std::string devices_used(const Measurement& measured, const std::vector<std::string>& names) {
  if (measured.busy_s.empty()) return "";
  std::size_t used = 0;
  std::string idle;
  for (std::size_t d = 0; d < measured.busy_s.size() && d < names.size(); ++d) {
    if (measured.busy_s[d] > 0) {
      ++used;
    } else {
      idle += (idle.empty() ? "" : ", ") + names[d];
    }
  }
  return " It uses " + std::to_string(used) + " of " + plural(names.size(), "device") +
         (idle.empty() ? "." : "; nothing runs on " + printable(idle) + ".");
}

/// Whose placement is to be used; null: there is none.
const TableRow* best_row(const ReportGraph& graph, const ReportVerdict& verdict) {
  if (verdict.best_method.empty()) return nullptr;
  return fastest(verdict.kind == ReportVerdict::Kind::kNotBetter ? graph.baselines : graph.learned);
}

std::string cards(const ReportGraph& graph, const ReportVerdict& verdict) {
  using Kind = ReportVerdict::Kind;
  if (verdict.best_method.empty()) return "";
  std::string out = card(seconds(verdict.best_s), "step time, by " + shown(verdict.best_method, 60));
  if (verdict.kind == Kind::kBetter)
    out += card("&minus;" + percent(1 - verdict.best_s / verdict.baseline_s),
                "against " + shown(verdict.baseline_method, 60), "good");
  if (verdict.kind == Kind::kNotBetter) {
    const TableRow* const learned = fastest(graph.learned);
    out += card(learned == nullptr ? std::string{"none fits"}
                                   : "+" + percent(learned->measurement.step_time_s / verdict.baseline_s - 1),
                "what was learned, against " + shown(verdict.baseline_method, 60), "bad");
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

std::string methods_table(const ReportGraph& graph, const ReportVerdict& verdict) {
  double slowest = 0;
  std::vector<const TableRow*> rows;
  for (const std::vector<TableRow>* from : {&graph.baselines, &graph.learned})
    for (const TableRow& row : *from) {
      rows.push_back(&row);
      if (fits(row)) slowest = std::max(slowest, row.measurement.step_time_s);
    }
  const bool each = graph.devices.size() <= kMostPeaks;
  std::string head =
      "<th scope=\"col\">Method</th><th scope=\"col\" class=\"wide\">Step time</th>"
      "<th scope=\"col\">Above bound</th>";
  for (std::size_t d = 0; each && d < graph.devices.size(); ++d)
    head += element("th", "Peak " + shown(graph.devices[d], 20), "scope=\"col\"");
  if (!each) head += "<th scope=\"col\">Highest peak</th>";
  head += "<th scope=\"col\">Moved</th><th scope=\"col\">Evaluations</th><th scope=\"col\">Time to find</th>";
  const std::string columns = std::to_string((each ? graph.devices.size() : 1) + 4);
  std::string body;
  const TableRow* const best = best_row(graph, verdict);
  for (const TableRow* row : rows) {
    const Measurement& m = row->measurement;
    std::string cells =
        element("th", shown(row->method, 60) + (row == best ? " <span class=\"mark\">best</span>" : ""),
                "scope=\"row\"");
    if (!row->found) {
      body += element(
          "tr", cells + element("td", shown(row->note),
                                "class=\"note\" colspan=\"" + std::to_string(std::stoi(columns) + 1) + "\""));
      continue;
    }
    const double share = fits(*row) && slowest > 0 ? m.step_time_s / slowest : 0;
    const double bound = fits(*row) && slowest > 0 ? graph.lower_bound_s / slowest : 0;
    cells += fits(*row) ? element("td",
                                  "<span class=\"bar\"><i style=\"width:" + formatted("%.1f", share * 100) +
                                      "%\"></i><b style=\"left:" + formatted("%.1f", bound * 100) +
                                      "%\"></b></span><span>" + seconds(m.step_time_s) + "</span>" +
                                      (m.label == MeasurementLabel::kSimulated
                                           ? std::string{}
                                           : " " + element("span", std::string{label_name(m.label)})),
                                  "class=\"wide\"")
                        : element("td", "does not fit", "class=\"wide misfit\"");
    cells += element("td", !fits(*row)               ? "+" + format_bytes(m.bytes_over) + " over"
                           : graph.lower_bound_s > 0 ? "+" + percent(m.step_time_s / graph.lower_bound_s - 1)
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
  return "<div class=\"scroll\"><table class=\"methods\"><caption>In the order of the config; what "
         "was learned "
         "comes last</caption><thead>" +
         element("tr", head) + "</thead>\n<tbody>" + body + "</tbody></table></div>\n";
}

std::string moves_section(const ReportGraph& graph, const Moves& moves) {
  const ReportTask& task = graph.task.front();
  const auto name = [&](DeviceId device) { return shown((*task.devices)[device].name, 40); };
  std::string out = element("h3", "What moved against " + shown(task.baseline.label, 60)) + "\n<p>";
  out += thousands(moves.total.ops) + " of " + plural(moves.ops, "op") + " (" +
         percent(moves.ops == 0 ? 0 : static_cast<double>(moves.total.ops) / static_cast<double>(moves.ops)) +
         "; views not counted) stand on another device than in the best baseline, " +
         shown(task.baseline.label, 60) + ". Their outputs hold " + format_bytes(moves.total.bytes) +
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
        " Devices that are alike may change names without a difference, so that fewest ops move: in the "
        "baseline's names, as below, " +
        renamed + ".";
  out += "</p>\n";
  if (moves.moves.empty()) return out;
  std::string body;
  for (std::size_t i = 0; i < std::min(moves.moves.size(), kMostMoves); ++i) {
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
      moves.moves.size() > kMostMoves
          ? "The " + std::to_string(kMostMoves) + " heaviest of " + thousands(moves.moves.size()) + " moves"
          : "All moves";
  return out + "<div class=\"scroll\"><table><caption>" + shown_of +
         ", by the time of their ops; time steps of a scope count as one</caption><thead><tr>"
         "<th scope=\"col\">Scope</th><th scope=\"col\">Device</th><th scope=\"col\">Ops</th>"
         "<th scope=\"col\">Outputs</th><th scope=\"col\">Time there</th><th scope=\"col\">Time "
         "here</th></tr></thead>\n<tbody>" +
         body + "</tbody></table></div>\n";
}

std::string chart_section(std::string_view chart, std::string_view title, std::string_view label) {
  return "<section>\n" + element("h3", title) + "\n<div class=\"chart\" data-chart=\"" + std::string{chart} +
         "\" role=\"group\" aria-label=\"" + escaped(label) + "\"></div>\n</section>\n";
}

std::string remeasured_section(const ReportGraph& graph) {
  std::string out = "<section>\n<h3>Measured once more</h3>\n";
  for (std::size_t s = 0; s < graph.remeasured.size(); ++s) {
    const ReportSession& session = graph.remeasured[s];
    std::string facts;
    for (const auto& [name, value] : session.facts)
      facts += element("div", element("dd", escaped(value)) + element("dt", escaped(name)), "class=\"card\"");
    out += element("h4", "On " + shown(session.executor, 60)) + "\n" +
           element("dl", facts, "class=\"cards\"") +
           "\n<div class=\"chart\" data-chart=\"scatter\" data-session=\"" + std::to_string(s) +
           "\" role=\"group\" aria-label=\"Predicted against measured step time\"></div>\n";
  }
  return out + "</section>\n";
}

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

/// Shares of what is left, so that the first graphs do not starve the last.
class Shares {
 public:
  Shares(PageBudget budget, std::size_t graphs) : left_{budget}, graphs_{std::max<std::size_t>(graphs, 1)} {}
  const PageBudget& left() const { return left_; }
  std::size_t part(std::size_t of) const { return of / graphs_; }
  StepBudget step(const Schedule& schedule) {
    const std::size_t steps = 2 * graphs_;
    const std::size_t even = left_.blocks / steps;
    // The first takes what it needs while something is left for the others.
    const std::size_t others = std::min<std::size_t>(even, 4'000) * (steps - taken_ - 1);
    StepBudget budget{std::min(blocks_of(schedule), left_.blocks > others ? left_.blocks - others : 0),
                      left_.name_bytes, left_.memory_levels / steps};
    left_.blocks -= std::min(left_.blocks, budget.blocks);
    taken_ = std::min(taken_ + 1, steps - 1);
    return budget;
  }
  void names_left(std::size_t bytes) { left_.name_bytes = bytes; }

 private:
  PageBudget left_;
  std::size_t graphs_, taken_ = 0;
};

json graph_json(const ReportGraph& graph, Shares& shares, std::optional<Moves>& moves) {
  json j{{"devices", json::array()},
         {"lines", json::array()},
         {"curves", json::array()},
         {"task", nullptr},
         {"bound", graph.lower_bound_s > 0 ? json(std::llround(graph.lower_bound_s * 1e9)) : json(nullptr)}};
  for (const std::string& name : graph.devices) j["devices"].push_back({{"name", printable(name)}});
  for (const TableRow& row : graph.baselines)
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
  for (const ReportStep* step : {&task.step, &task.baseline}) {
    if (step->placement.empty()) continue;
    StepBudget budget = shares.step(step->schedule);
    steps.push_back(step_json(*task.graph, *task.devices, *step, scopes, budget));
    shares.names_left(budget.name_bytes);
  }
  j["task"] = {{"types", std::move(types)}, {"map", scope_json(scopes)}, {"steps", std::move(steps)}};
  if (!task.baseline.placement.empty())
    moves = moves_between(*task.graph, *task.devices, costs, scopes.scopes, scopes.scope_of_op,
                          task.baseline.placement, task.step.placement);
  return j;
}

std::string graph_section(const ReportGraph& graph, std::size_t number, const ReportData& data,
                          const std::optional<Moves>& moves) {
  const ReportVerdict verdict = verdict_of(graph, data.going_on);
  std::string out = "<article data-graph=\"" + std::to_string(number) + "\">\n";
  out += "<section class=\"verdict\">\n<h2>" + shown(graph.name, 80) + "</h2>\n<p class=\"sentence\">" +
         escaped(verdict.sentence) + "</p>\n" + cards(graph, verdict);
  if (!graph.evaluate_command.empty()) out += command_line("Measure it again", graph.evaluate_command);
  if (!data.run_command.empty()) out += command_line("Learn it again", data.run_command);
  out += "</section>\n<section>\n<h3>Methods</h3>\n" + methods_table(graph, verdict) + "</section>\n";
  if (measured_in(graph.curves) > 0)
    out += chart_section("curve", "Learning curve", "Step time of the placements measured, over the run");
  if (!graph.remeasured.empty()) out += remeasured_section(graph);
  if (graph.task.empty()) {
    out += "<section>\n<h3>Schedule</h3>\n<p>" +
           escaped(graph.note.empty() ? "There is no placement to draw yet." : graph.note) +
           "</p>\n</section>\n";
    return out + "</article>\n";
  }
  out += chart_section("gantt", "Schedule", "What every device and link does during one step");
  out += chart_section("memory", "Memory", "What every device holds during one step, and how much it could");
  out += chart_section("graph", "The graph, and where it runs",
                       "Scopes of the graph, coloured by device, and the data between them");
  if (moves) out += "<section>\n" + moves_section(graph, *moves) + "</section>\n";
  return out + "</article>\n";
}

std::string provenance_section(const ReportData& data) {
  std::string rows;
  for (const auto& [name, value] : data.provenance)
    rows +=
        element("tr", element("th", escaped(name), "scope=\"row\"") + element("td", escaped(value))) + "\n";
  std::string config = data.config_toml.substr(0, kMostConfig);
  if (config.size() < data.config_toml.size()) config += "\n…";
  return "<section class=\"provenance\">\n<h2>Provenance</h2>\n<div class=\"scroll\"><table "
         "class=\"facts\"><caption>"
         "What this page was made of</caption><tbody>" +
         rows + "</tbody></table></div>\n<details><summary>The config, as run</summary><pre>" +
         escaped(config) +
         "</pre></details>\n<details><summary>The charts use dygraphs 2.2.1 (MIT)</summary><pre>" +
         escaped(page::kDygraphsLicence) + "</pre></details>\n</section>\n";
}

/// The name of its source map is of no use in a page.
std::string without_source_map(std::string_view script) {
  const std::size_t at = script.rfind("//# sourceMappingURL=");
  return std::string{at == std::string_view::npos ? script : script.substr(0, at)};
}

std::string csp_hash(std::string_view script) {
  const Sha256Digest digest = sha256(std::as_bytes(std::span{script}));
  return "'sha256-" + to_base64(std::as_bytes(std::span{digest})) + "'";
}

/// The skeleton with what goes where it says so; what goes in is not looked at again.
std::string filled(std::string_view skeleton, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string out;
  while (!skeleton.empty()) {
    const std::size_t begin = skeleton.find("{{"), end = skeleton.find("}}", begin);
    out.append(skeleton.substr(0, begin));
    if (end == std::string_view::npos) break;
    out += parts.at(std::string{skeleton.substr(begin + 2, end - begin - 2)});
    skeleton.remove_prefix(end + 2);
  }
  return out;
}

std::string render(const ReportData& data, const PageBudget& budget) {
  Shares shares{budget, data.graphs.size()};
  json graphs = json::array();
  std::string articles, choices;
  for (std::size_t g = 0; g < data.graphs.size(); ++g) {
    std::optional<Moves> moves;
    graphs.push_back(graph_json(data.graphs[g], shares, moves));
    articles += graph_section(data.graphs[g], g, data, moves);
    choices += element("option", shown(data.graphs[g].name, 80), "value=\"" + std::to_string(g) + "\"");
  }
  std::string body = "<header>\n<h1><span>emplace report</span> " + shown(data.run, 80) + "</h1>\n";
  if (data.going_on)
    body += "<p class=\"going-on\" role=\"status\">This run had not ended when the page was written (" +
            escaped(data.written) + "): what follows is what was known then.</p>\n";
  if (data.graphs.size() > 1)
    body += "<p><label>Graph <select id=\"choose-graph\">" + choices + "</select></label> " +
            plural(data.graphs.size(), "graph") + "</p>\n";
  body += "</header>\n<main>\n" + articles + provenance_section(data) + "</main>\n";
  const std::string dygraphs = without_source_map(page::kDygraphs), script{page::kScript};
  return filled(page::kHtml, {{"hashes", csp_hash(dygraphs) + " " + csp_hash(script)},
                              {"title", "emplace report: " + shown(data.run, 80)},
                              {"css", std::string{page::kCss}},
                              {"body", std::move(body)},
                              {"data", inert({{"graphs", std::move(graphs)}})},
                              {"dygraphs", dygraphs},
                              {"script", script}});
}

}  // namespace

ReportVerdict verdict_of(const ReportGraph& graph, bool going_on) {
  using Kind = ReportVerdict::Kind;
  ReportVerdict verdict;
  const TableRow* const learned = fastest(graph.learned);
  const TableRow* const baseline = fastest(graph.baselines);
  if (baseline != nullptr)
    verdict.baseline_method = baseline->method, verdict.baseline_s = baseline->measurement.step_time_s;
  const bool better =
      learned != nullptr && (baseline == nullptr || learned->measurement.step_time_s < verdict.baseline_s);
  const TableRow* const best = better ? learned : baseline;
  if (best == nullptr) {
    verdict.kind = going_on || measured_in(graph.curves) == 0 ? Kind::kNothingYet : Kind::kNothingFits;
    verdict.sentence =
        verdict.kind == Kind::kNothingYet
            ? "No placement that fits has been measured yet, and no baseline fits."
            : "No placement that fits was found: none of " + plural(measured_in(graph.curves), "placement") +
                  " measured, and no baseline. Give the devices more memory, or the run more time.";
    return verdict;
  }
  verdict.best_method = best->method;
  verdict.best_s = best->measurement.step_time_s;
  verdict.kind = !better ? Kind::kNotBetter : baseline == nullptr ? Kind::kNoBaseline : Kind::kBetter;
  std::string& text = verdict.sentence;
  const std::string baseline_words =
      printable(verdict.baseline_method, 60) + " (" + seconds(verdict.baseline_s) + ")";
  if (better) {
    text = seconds(verdict.best_s) + " per step, by " + printable(best->method, 60);
    text += baseline == nullptr && graph.baselines.empty() ? ": no baseline is known"
            : baseline == nullptr                          ? ": no baseline fits"
                                  : ": " + percent(1 - verdict.best_s / verdict.baseline_s) +
                                        " less than the best baseline, " + baseline_words;
  } else {
    text = learned == nullptr
               ? "What was learned does not fit" + std::string{going_on ? " yet" : ""}
               : "What was learned takes " + seconds(learned->measurement.step_time_s) + " per step and " +
                     (learned->measurement.step_time_s > verdict.baseline_s ? "is slower than"
                                                                            : "is no faster than") +
                     " the best baseline";
    text += ": use the baseline's placement, " + baseline_words;
  }
  if (graph.lower_bound_s > 0)
    text += "; " + percent(verdict.best_s / graph.lower_bound_s - 1) + " above the proven bound (" +
            seconds(graph.lower_bound_s) + (graph.bound.empty() ? "" : ", by " + graph.bound) + ")";
  text += "." + devices_used(best->measurement, graph.devices);
  return verdict;
}

std::string render_report(const ReportData& data) {
  PageBudget budget;
  for (;;) {
    std::string page = render(data, budget);
    if (page.size() <= kMostBytes || budget.blocks < 1'000) return page;
    for (std::size_t* part :
         {&budget.blocks, &budget.name_bytes, &budget.scopes, &budget.edges, &budget.memory_levels})
      *part = *part * 3 / 4;
  }
}

}  // namespace emplace::record
