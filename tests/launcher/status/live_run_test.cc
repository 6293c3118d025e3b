#include "launcher/status/live_run.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/status/live_report.h"

namespace emplace::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

messages::NodeStatus node(const std::string& name, double busy = 0, std::uint64_t queue = 0,
                          const std::string& error = "") {
  messages::NodeStatus status;
  status.report.node = name;
  status.report.host = "host-of-" + name;
  status.utilisation = busy;
  status.report.actors.push_back({"executor/" + name, 10, queue, 0, error});
  return status;
}

LiveRun running() {
  LiveRun state;
  state.phase = RunPhase::kRunning;
  state.status.run = "runs/a";
  state.status.progress.dispatch.best_step_time_s = 0.25;
  state.status.nodes = {node("a", 0.5, 3), node("b", 0.1, 9, "it failed"), node("c", 0.9, 1)};
  state.start.name = "scratch";
  state.start.budget_s = 60;
  state.start.heuristic = "scotch";
  state.start.heuristic_s = 0.5;
  state.start.bound_s = 0.2;
  state.start.nodes = {"head", "b"};
  state.start.restarts = {0, 2};
  state.starts = {"scratch", "best-heuristic"};
  state.progress_at = state.nodes_at = std::chrono::seconds{100};
  return state;
}

std::vector<std::string> names(const Json& json) {
  std::vector<std::string> list;
  for (const Json& one : json["nodes"]) list.push_back(one["node"]);
  return list;
}

std::vector<std::string> found(const NodeQuery& query) {
  return names(nodes_json(running(), std::chrono::seconds{100}, query));
}

TEST(LiveRun, HasTheStatusOfPsAndTheFactsOfTheLauncher) {
  LiveRun state = running();
  state.note(3.5, "b was ended by signal 9; restarting from run.db");
  const Json json = to_json(state, std::chrono::seconds{102}, {});
  EXPECT_EQ(json["run_dir"], "runs/a");
  EXPECT_EQ(json["best_step_time_s"], 0.25);
  EXPECT_EQ(json["phase"], "running");
  EXPECT_EQ(json["budget_s"], 60);
  EXPECT_EQ(json["bound_s"], 0.2);
  EXPECT_EQ(json["heuristic"]["method"], "scotch");
  EXPECT_EQ(json["heuristic"]["step_time_s"], 0.5);
  EXPECT_EQ(json["starts"].dump(), R"(["scratch","best-heuristic"])");
  EXPECT_EQ(json["restarts"].dump(), R"({"b":2})");
  EXPECT_EQ(json["events"][0]["at_s"], 3.5);
  EXPECT_EQ(json["events"][0]["text"], "b was ended by signal 9; restarting from run.db");
  EXPECT_THAT(names(json), ElementsAre("b", "a", "c"));
  EXPECT_EQ(json["nodes_total"], 3);
  EXPECT_EQ(json["nodes_age_s"], 2.0);
  EXPECT_TRUE(json["report_failure"].is_null());
}

TEST(LiveRun, UnknownValuesAreNull) {
  const Json json = to_json(LiveRun{}, Nanos{0}, {});
  EXPECT_EQ(json["phase"], "starting");
  for (const char* key : {"bound_s", "heuristic", "best_step_time_s", "why_idle"})
    EXPECT_TRUE(json[key].is_null()) << key;
  EXPECT_EQ(json["nodes_total"], 0);
}

TEST(LiveRun, HasAnIdleReasonOnlyWhileTheRunContinues) {
  LiveRun state;
  state.phase = RunPhase::kRunning;
  state.measured_at = std::chrono::seconds{10};
  EXPECT_TRUE(to_json(state, std::chrono::seconds{12}, {})["why_idle"].is_null()) << "a moment without work";
  EXPECT_THAT(to_json(state, std::chrono::seconds{13}, {})["why_idle"].get<std::string>(),
              HasSubstr("nothing runs because"));
  for (const RunPhase phase : {RunPhase::kStarting, RunPhase::kHeuristics, RunPhase::kEnded}) {
    state.phase = phase;
    EXPECT_TRUE(to_json(state, std::chrono::seconds{13}, {})["why_idle"].is_null()) << word_of(phase);
  }
}

TEST(LiveRun, RemembersTheTimeOfTheLastMeasurement) {
  LiveRun state;
  messages::RunProgress progress;
  progress.dispatch.measurements = 4;
  state.report(progress, std::chrono::seconds{5});
  EXPECT_EQ(state.measured_at, std::chrono::seconds{5});
  state.report(progress, std::chrono::seconds{6});
  EXPECT_EQ(state.measured_at, std::chrono::seconds{5});
  EXPECT_EQ(state.progress_at, std::chrono::seconds{6});
}

TEST(LiveRun, FinishedRunHasTheResultsOfItsReport) {
  record::ReportData report;
  record::ReportGraph& graph = report.graphs.emplace_back();
  graph.name = "nmt";
  graph.lower_bound_s = 0.2;
  const auto row = [](const std::string& method, double step_time_s) {
    TableRow made;
    made.method = method;
    made.found = made.measurement.valid = true;
    made.measurement.step_time_s = step_time_s;
    return made;
  };
  graph.heuristics = {row("heft", 0.5), row("scotch", 0.4)};
  graph.learned = {row("hierarchical, from scratch", 0.35),
                   row("hierarchical, from the best heuristic", 0.3)};
  graph.curves = {{"a", {{10, 10, 10, 2, {}, 0.4}, {30, 20, 20, 5, {}, 0.35}}},
                  {"b", {{40, 40, 40, 6, {}, 0.3}}}};
  LiveRun run;
  run.phase = RunPhase::kEnded;
  fill(run, report);
  const Json json = to_json(run, Nanos{0}, {});
  EXPECT_EQ(json["graph"], "nmt");
  EXPECT_EQ(json["method"], "hierarchical");
  EXPECT_EQ(json["best_step_time_s"], 0.3);
  EXPECT_EQ(json["heuristic"]["method"], "scotch");
  EXPECT_EQ(json["bound_s"], 0.2);
  EXPECT_EQ(json["measurements"], 70);
  EXPECT_EQ(json["elapsed_s"], 11.0);
  fill(run, record::ReportData{});  // A report without a graph changes nothing.
  EXPECT_EQ(to_json(run, Nanos{0}, {})["graph"], "nmt");
}

TEST(LiveRun, BriefListIsBoundedAndShowsTroubleFirst) {
  LiveRun state = running();
  EXPECT_THAT(names(to_json(state, Nanos{0}, {2, true})), ElementsAre("b", "a"));
  const Json brief = to_json(state, Nanos{0}, {1, true});
  EXPECT_EQ(brief["nodes"][0]["last_error"], "executor/b: it failed");
  EXPECT_FALSE(brief["nodes"][0].contains("version"));
  EXPECT_EQ(brief["nodes_total"], 3);
  messages::NodeStatus head;  // It sorts last by name, and the run depends on it.
  head.report.node = "z", head.report.actors = {{"dispatcher/0", 1, 0, 0, ""}}, head.credit = 5;
  state.status.nodes.push_back(head);
  EXPECT_THAT(names(to_json(state, Nanos{0}, {2, true})), ElementsAre("z", "b"));
  std::uint64_t credits = 0;
  for (const messages::NodeStatus& node : state.status.nodes) credits += node.credit;
  EXPECT_EQ(to_json(state, Nanos{0}, {1, true})["credits"], credits)
      << "of the nodes that are not listed, too";
  state.status.nodes.front().report.actors.resize(5'000, {"executor/x", 1, 1, 0, ""});
  EXPECT_LT(to_json(state, Nanos{0}, {40, true}).dump().size(), 8'000U);
}

TEST(LiveRun, EventOfTenThousandNodesStaysBrief) {
  LiveRun state = running();
  state.status.nodes.clear();
  for (int i = 0; i < 10'000; ++i) state.status.nodes.push_back(node(fmt::format("worker/{:05}", i)));
  const Json json = to_json(state, Nanos{0}, {40, true});
  EXPECT_EQ(json["nodes"].size(), 40U);
  EXPECT_EQ(json["nodes_total"], 10'000);
  EXPECT_LT(json.dump().size(), 24U * 1'024U);
  EXPECT_EQ(to_json(state, Nanos{0}, {})["nodes"].size(), 1'000U);
}

TEST(LiveRun, KeepsTheNewestEvents) {
  LiveRun state;
  for (int i = 0; i < 150; ++i) state.note(i, std::to_string(i));
  EXPECT_EQ(state.events.size(), LiveRun::kMaxEvents);
  EXPECT_EQ(state.events.back().text, "149");
  EXPECT_EQ(state.events.front().text, "50");
}

TEST(LiveRun, EventIsOneLineWithoutControlCharacters) {
  LiveRun state;
  state.note(0, "a\x1b[31mb\n" + std::string(5'000, 'x'));
  const std::string text = to_json(state, Nanos{0}, {})["events"][0]["text"];
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_LT(text.size(), 400U);
}

TEST(NodeQuery, SortsFiltersAndPages) {
  EXPECT_THAT(found(NodeQuery{}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(found({0, 50, "-name", ""}), ElementsAre("c", "b", "a"));
  EXPECT_THAT(found({0, 50, "busy", ""}), ElementsAre("b", "a", "c"));
  EXPECT_THAT(found({0, 50, "-queue", ""}), ElementsAre("b", "a", "c"));
  EXPECT_THAT(found({1, 1, "name", ""}), ElementsAre("b"));
  EXPECT_THAT(found({7, 50, "name", ""}), ElementsAre());
  EXPECT_THAT(found({0, 50, "name", "host-of-c"}), ElementsAre("c"));
  EXPECT_THAT(found({0, 50, "name", "HOST-of-C"}), ElementsAre("c")) << "as top filters";
  EXPECT_THAT(found({0, 50, "name", "executor"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(found({0, 50, "name", "absent"}), ElementsAre());
  const Json json = nodes_json(running(), std::chrono::seconds{101}, {0, 1, "name", "host"});
  EXPECT_EQ(json["found"], 3);
  EXPECT_EQ(json["nodes_total"], 3);
  EXPECT_EQ(json["nodes_age_s"], 1.0);
}

TEST(NodeQuery, ParsesStrictly) {
  const auto parsed =
      parse_node_query({{"offset", "40"}, {"limit", "1000000"}, {"sort", "-busy"}, {"find", "a"}});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->offset, 40U);
  EXPECT_EQ(parsed->limit, 200U);
  EXPECT_EQ(parsed->sort, "-busy");
  EXPECT_EQ(parsed->find, "a");
  EXPECT_TRUE(parse_node_query({}));
  using Query = std::map<std::string, std::string>;
  for (const Query& wrong :
       {Query{{"offset", "-1"}}, Query{{"offset", ""}}, Query{{"limit", "1e3"}},
        Query{{"offset", "99999999999999999999999"}}, Query{{"sort", "colour"}}, Query{{"sort", "--name"}}})
    EXPECT_FALSE(parse_node_query(wrong)) << wrong.begin()->second;
}

TEST(RefreshPacer, ReadsAgainOnlyAfterAChangeAndWithinItsShare) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  RefreshPacer pacer;
  EXPECT_TRUE(pacer.due(1, seconds{0}));
  pacer.finished(1, seconds{10}, milliseconds{1}, 1'000);
  EXPECT_FALSE(pacer.due(2, seconds{10} + RefreshPacer::kLeast - Nanos{1}));
  EXPECT_TRUE(pacer.due(2, seconds{10} + RefreshPacer::kLeast));
  EXPECT_FALSE(pacer.due(1, seconds{1'000})) << "nothing changed";
  // An expensive reading: 1/200 of a core.
  pacer.finished(2, seconds{20}, milliseconds{500}, 1'000);
  EXPECT_FALSE(pacer.due(3, seconds{20} + seconds{99}));
  EXPECT_TRUE(pacer.due(3, seconds{20} + seconds{100}));
  // A large report: 40 KiB/s.
  pacer.finished(3, seconds{200}, milliseconds{1}, 40 * 1'024 * 30);
  EXPECT_FALSE(pacer.due(4, seconds{229}));
  EXPECT_TRUE(pacer.due(4, seconds{230}));
}

}  // namespace
}  // namespace emplace::launcher
