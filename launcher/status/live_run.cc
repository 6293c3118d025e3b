#include "launcher/status/live_run.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/text/case.h"
#include "base/text/words.h"
#include "launcher/cluster/operator/idle_reason.h"
#include "launcher/cluster/operator/status_json.h"
#include "launcher/cluster/roles.h"
#include "record/report/verdict.h"

namespace emplace::launcher {
namespace {

using messages::NodeStatus;

constexpr std::chrono::seconds kIdle{3};  // Without a measurement for this long, a run has a reason.
constexpr std::size_t kMaxLimit = 200;
constexpr std::size_t kMaxBriefActors = 12;

double seconds_since(Nanos then, Nanos now) {
  return then == Nanos{0} ? 0 : std::chrono::duration<double>(now - then).count();
}

/// What the page's tables show of a node.
Json brief_json(const NodeStatus& node) {
  Json json = node_json(node);
  for (const char* unused : {"version", "sent", "received", "refused", "dropped", "peers_lost"})
    json.erase(unused);
  Json& actors = json["actors"];
  const std::size_t all = actors.size();
  if (all > kMaxBriefActors) actors.erase(actors.begin() + kMaxBriefActors, actors.end());
  json["actors_total"] = all;
  for (Json& actor : actors) actor.erase("handled");
  return json;
}

bool has_trouble(const NodeStatus& node) { return restarts_of(node) > 0 || !last_error_of(node).empty(); }

/// Whether the run has only one of a role that this node hosts; all executors depend on it.
bool is_central(const NodeStatus& node) {
  const auto roles = roles_of(node);
  return std::any_of(roles.begin(), roles.end(), is_single);
}

/// Returns pointers to at most `most` nodes: the central ones, those with errors or restarts, then the
/// others.
std::vector<const NodeStatus*> first_nodes(const std::vector<NodeStatus>& nodes, std::size_t most) {
  std::vector<const NodeStatus*> chosen;
  const auto worth = [](const NodeStatus& node) { return is_central(node) ? 0 : has_trouble(node) ? 1 : 2; };
  for (const int wanted : {0, 1, 2}) {
    for (const NodeStatus& node : nodes) {
      if (chosen.size() >= most) return chosen;
      if (worth(node) == wanted) chosen.push_back(&node);
    }
  }
  return chosen;
}

double rank(const NodeStatus& node, std::string_view sort) {
  if (sort == "busy") return node.utilisation;
  if (sort == "rate") return node.evaluations_per_s;
  if (sort == "queue") return static_cast<double>(queue_of(node));
  if (sort == "restarts") return static_cast<double>(restarts_of(node));
  return node.age_s;  // "seen"
}

/// `text`: in lower case.
bool matches(const NodeStatus& node, const std::string& text) {
  return text.empty() || lower_case(searched_text(node)).find(text) != std::string::npos;
}

}  // namespace

void LiveRun::note(double at_s, std::string text) {
  events.push_back({at_s, std::move(text)});
  while (events.size() > kMaxEvents) events.pop_front();
}

void LiveRun::report(const messages::RunProgress& progress, Nanos now) {
  if (progress.dispatch.measurements != status.progress.dispatch.measurements) measured_at = now;
  status.progress = progress;
  progress_at = now;
}

void fill(LiveRun& run, const record::ReportData& report) {
  if (report.graphs.empty()) return;
  const record::ReportGraph& graph = report.graphs.front();
  run.status.graph = graph.name;
  run.start.bound_s = graph.lower_bound_s;
  if (const TableRow* best = record::fastest(graph.heuristics)) {
    run.start.heuristic = best->method;
    run.start.heuristic_s = best->measurement.step_time_s;
  }
  // "hierarchical, from scratch"
  if (!graph.learned.empty())
    run.status.method = graph.learned.front().method.substr(0, graph.learned.front().method.find(','));
  messages::DispatchProgress& progress = run.status.progress.dispatch;
  if (const TableRow* best = record::fastest(graph.learned))
    progress.best_step_time_s = best->measurement.step_time_s;
  for (const record::ReportGraph& one : report.graphs)
    progress.measurements += record::measured_in(one.curves);
  for (const record::LearningCurve& curve : graph.curves)
    if (!curve.points.empty()) progress.elapsed_s += curve.points.back().wall_s;
}

Json to_json(const LiveRun& state, Nanos now, const NodeLimits& limits) {
  messages::StatusDelivered status = state.status;
  const std::vector<NodeStatus> nodes = std::exchange(status.nodes, {});
  Json json = status_json(status);
  json["phase"] = word_of(state.phase);
  const bool idle = state.phase == RunPhase::kRunning && now - state.measured_at >= kIdle;
  const std::string why = idle ? idle_reason(state.status, seconds_since(state.progress_at, now)) : "";
  json["why_idle"] = why.empty() ? Json(nullptr) : Json(why);
  json["budget_s"] = state.start.budget_s;
  json["bound_s"] = state.start.bound_s > 0 ? Json(state.start.bound_s) : Json(nullptr);
  if (state.start.heuristic.empty()) {
    json["heuristic"] = nullptr;
  } else {
    json["heuristic"] = {{"method", state.start.heuristic}, {"step_time_s", state.start.heuristic_s}};
  }
  json["starts"] = state.starts;
  Json restarts = Json::object();
  for (std::size_t i = 0; i < state.start.restarts.size(); ++i)
    if (state.start.restarts[i] > 0) restarts[state.start.nodes[i]] = state.start.restarts[i];
  json["restarts"] = std::move(restarts);
  auto events = Json::array();
  for (const RunEvent& event : state.events)
    events.push_back({{"at_s", event.at_s}, {"text", printable(event.text, 300)}});
  json["events"] = std::move(events);
  json["report_failure"] = state.report_failure.empty() ? Json(nullptr) : Json(state.report_failure);
  auto listed = Json::array();
  for (const NodeStatus* node : first_nodes(nodes, limits.nodes))
    listed.push_back(limits.brief ? brief_json(*node) : node_json(*node));
  json["nodes"] = std::move(listed);
  json["nodes_total"] = nodes.size();
  json["credits"] =
      std::accumulate(nodes.begin(), nodes.end(), std::uint64_t{0},
                      [](std::uint64_t credits, const NodeStatus& node) { return credits + node.credit; });
  json["nodes_age_s"] = seconds_since(state.nodes_at, now);
  return json;
}

Result<NodeQuery> parse_node_query(const std::map<std::string, std::string>& query) {
  NodeQuery parsed;
  const auto number = [&](const char* name, std::size_t& field) -> Result<Unit> {
    const auto given = query.find(name);
    if (given == query.end()) return Unit{};
    const std::string& text = given->second;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), field);
    if (failure == std::errc{} && end == text.data() + text.size() && !text.empty()) return Unit{};
    return invalid(name, "'" + printable(text, 40) + "' is not a number");
  };
  EMPLACE_TRY(number("offset", parsed.offset));
  EMPLACE_TRY(number("limit", parsed.limit));
  parsed.limit = std::min(parsed.limit, kMaxLimit);
  if (const auto given = query.find("sort"); given != query.end()) parsed.sort = given->second;
  if (const auto given = query.find("find"); given != query.end()) parsed.find = given->second;
  constexpr std::array<std::string_view, 6> kOrders{"name", "busy", "rate", "queue", "restarts", "seen"};
  std::string_view order = parsed.sort;
  if (order.starts_with('-')) order.remove_prefix(1);
  if (std::find(kOrders.begin(), kOrders.end(), order) == kOrders.end())
    return invalid("sort", "'" + printable(parsed.sort, 40) + "' is unknown",
                   "use name, busy, rate, queue, restarts or seen, with - before it to reverse");
  return parsed;
}

Json nodes_json(const LiveRun& state, Nanos now, const NodeQuery& query) {
  std::vector<const NodeStatus*> found;
  const std::string find = lower_case(query.find);
  for (const NodeStatus& node : state.status.nodes)
    if (matches(node, find)) found.push_back(&node);
  const bool reversed = query.sort.starts_with('-');
  const std::string_view sort = std::string_view{query.sort}.substr(reversed ? 1 : 0);
  if (sort != "name")  // The head reports nodes by name.
    std::stable_sort(found.begin(), found.end(), [&](const NodeStatus* a, const NodeStatus* b) {
      return rank(*a, sort) < rank(*b, sort);
    });
  if (reversed) std::reverse(found.begin(), found.end());
  auto listed = Json::array();
  for (std::size_t i = query.offset; i < found.size() && listed.size() < query.limit; ++i)
    listed.push_back(brief_json(*found[i]));
  return {{"nodes", std::move(listed)},
          {"offset", query.offset},
          {"found", found.size()},
          {"nodes_total", state.status.nodes.size()},
          {"nodes_age_s", seconds_since(state.nodes_at, now)}};
}

}  // namespace emplace::launcher
