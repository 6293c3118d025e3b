#pragma once
/// A run as its launcher and its head know it, and its form as JSON.

#include <array>
#include <cstdint>
#include <deque>

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/settings.h"
#include "launcher/session/progress.h"
#include "launcher/terminal/json_text.h"
#include "messages/status.h"
#include "record/report/report_data.h"

namespace emplace::launcher {

enum class RunPhase : std::uint8_t { kStarting, kHeuristics, kRunning, kEnding, kEnded };
constexpr auto enum_words(RunPhase) {
  return EnumWords{
      "phase",
      std::array{EnumWord{RunPhase::kStarting, "starting"}, EnumWord{RunPhase::kHeuristics, "heuristics"},
                 EnumWord{RunPhase::kRunning, "running"}, EnumWord{RunPhase::kEnding, "ending"},
                 EnumWord{RunPhase::kEnded, "ended"}}};
}

/// A line for people about the run.
struct RunEvent {
  double at_s = 0;  ///< Time since the port was opened [s].
  std::string text;
};

struct LiveRun {
  RunPhase phase = RunPhase::kStarting;
  messages::StatusDelivered status;  ///< Latest status; its progress may be newer than its nodes.
  Nanos progress_at{0};              ///< When the head last reported its progress; 0: never.
  Nanos nodes_at{0};                 ///< When the head last reported its nodes; 0: never.
  Nanos measured_at{0};              ///< When the number of measurements last changed, as far as known.
  ShownStart start;                  ///< The start in progress, or the last one.
  std::vector<std::string> starts;   ///< Names of all starts.
  std::deque<RunEvent> events;       ///< At most kMaxEvents, the newest last.
  std::string report_failure;        ///< Why the report cannot be read now; empty: it can.

  static constexpr std::size_t kMaxEvents = 100;
  void note(double at_s, std::string text);
  /// Records progress that the head reported at `now`.
  void report(const messages::RunProgress& progress, Nanos now);
};

/// Fills in the results of a run from its report: graph, method, best and heuristic of the first graph,
/// and the measurements and seconds of all starts. For a run of another launcher, or one that is over.
void fill(LiveRun& run, const record::ReportData& report);

/// How much of the nodes a JSON object lists: the head and other central nodes first, then nodes in trouble.
struct NodeLimits {
  std::size_t nodes = 1'000;
  bool brief = false;  ///< Only the facts that the page's tables show.
};

/// Returns the object of /status.json.
Json to_json(const LiveRun& state, Nanos now, const NodeLimits& limits);

/// A page of the table of nodes, as asked for by a query: offset, limit (at most 200), sort (name, busy,
/// rate, queue, restarts, seen; "-" before it reverses), find (part of a name, a host or a role).
struct NodeQuery {
  std::size_t offset = 0, limit = 50;
  std::string sort = "name", find;
};
/// Errors (kInvalid): a number is malformed, or the order is unknown.
Result<NodeQuery> parse_node_query(const std::map<std::string, std::string>& query);
/// Returns {"nodes": […], "offset", "found", "nodes_total"}.
Json nodes_json(const LiveRun& state, Nanos now, const NodeQuery& query);

}  // namespace emplace::launcher
