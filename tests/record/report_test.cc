// Goal: the page states the result of the run, contains the data of its pictures, loads nothing, stays below
// its size, and no name can become markup. Method: pages of small synthetic runs, their data read back as by
// the page's script; a plain scan for elements.
#include "record/report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "base/text/words.h"
#include "executor/sim/critical_chain.h"
#include "executor/sim/simulator.h"
#include "record/report/live_page.h"
#include "record/report/moves.h"
#include "record/report/scope_map.h"
#include "record/report/verdict.h"
#include "tests/graph/large_graph.h"
#include "tests/support/sample_graphs.h"

namespace emplace::record {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = ReportVerdict::Kind;

constexpr std::int64_t kRoomy = 1 << 30;

TableRow row(const std::string& method, double step_time_s, bool valid = true) {
  TableRow made;
  made.method = method, made.found = true;
  made.measurement.valid = valid, made.measurement.step_time_s = step_time_s;
  made.measurement.peak_bytes = {1 << 20, 2 << 20};
  made.measurement.busy_s = {step_time_s, 0};
  return made;
}

ReportGraph made_up_graph() {
  ReportGraph graph;
  graph.name = "g", graph.devices = {"gpu:0", "gpu:1"};
  graph.heuristics = {row("slow", 0.9), row("quick", 0.6), row("tight", 0.1, false)};
  graph.learned = {row("learner", 0.45)};
  graph.lower_bound_s = 0.3, graph.bound = "critical path";
  graph.curves = {{"learner", learning_curve(std::vector<CurveSample>(7, {true, 0.45, 1}), 400)}};
  return graph;
}

TEST(ReportVerdict, StatesTheGainOverTheBestHeuristic) {
  const ReportVerdict verdict = verdict_of(made_up_graph(), false);
  EXPECT_EQ(verdict.kind, Kind::kBetter);
  EXPECT_EQ(
      verdict.sentence,
      "450.0 ms per step, by learner: 25 % less than the best heuristic, quick (600.0 ms); 50 % above the "
      "proven bound (300.0 ms, by critical path). It uses 1 of 2 devices; nothing runs on gpu:1.");
}

TEST(ReportVerdict, RecommendsAnUnbeatenHeuristic) {
  ReportGraph graph = made_up_graph();
  graph.learned = {row("learner", 0.7)};
  const ReportVerdict verdict = verdict_of(graph, false);
  EXPECT_EQ(verdict.kind, Kind::kNotBetter);
  EXPECT_EQ(verdict.best_method, "quick");
  EXPECT_THAT(verdict.sentence, HasSubstr("use the heuristic's placement, quick"));
}

TEST(ReportVerdict, StatesThatNothingFitsOrIsKnown) {
  ReportGraph graph = made_up_graph();
  graph.heuristics = {row("tight", 0.1, false)};
  graph.learned = {row("learner", 0.1, false)};
  EXPECT_EQ(verdict_of(graph, false).kind, Kind::kNothingFits);
  EXPECT_EQ(verdict_of(graph, true).kind, Kind::kNothingYet);
  graph.learned = {row("learner", 0.1)};
  EXPECT_EQ(verdict_of(graph, false).kind, Kind::kNoHeuristic);
}

/// A graph that was simulated on two placements, and the data of its page. Must not be moved.
struct Drawn {
  Drawn(OpGraph g, std::size_t gpus, std::uint64_t seed)
      : graph{std::move(g)}, devices{testing::sample_devices(gpus, true, kRoomy)} {
    Rng rng{seed, Purpose::kTest};
    Simulator simulator{graph, devices};
    const LoweredGraph lowered{graph};
    ReportTask& task = data.graphs.emplace_back(made_up_graph()).task.emplace_back();
    task.graph = &graph, task.devices = &devices;
    for (ReportStep* step : {&task.step, &task.heuristic}) {
      step->placement = testing::random_placement(rng, graph.num_ops(), devices.size());
      EXPECT_TRUE(simulator.trace(step->placement, step->measured, step->schedule).ok());
      step->chain = critical_chain(lowered, step->placement, step->schedule, devices);
      step->label = step == &task.step ? "learner" : "quick";
    }
    data.run = "run";
    data.graphs[0].devices.clear();
    for (const Device& device : devices.devices()) data.graphs[0].devices.push_back(device.name);
  }
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;
  const ReportStep& step() const { return data.graphs[0].task[0].step; }

  OpGraph graph;
  DeviceSet devices;
  ReportData data;
};

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

/// Number of openings of each element outside of scripts.
std::map<std::string, int> elements_of(const std::string& page) {
  std::map<std::string, int> count;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    if (at + 1 < page.size() && (std::isalpha(static_cast<unsigned char>(page[at + 1])) == 0)) continue;
    const std::size_t end = page.find_first_of(" >\n", at);
    const std::string name = page.substr(at + 1, end - at - 1);
    ++count[name];
    if (name == "script" || name == "style") at = page.find("</" + name, at);
  }
  return count;
}

TEST(Report, ContainsTheDataOfItsPictures) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Drawn drawn{testing::random_graph(seed, 60), 2, seed};
    const json step = data_of(render_report(drawn.data))["graphs"][0]["task"]["steps"][0];
    EXPECT_EQ(step["end"], std::llround(drawn.step().measured.step_time_s * 1e9));
    std::size_t ops = 0, copies = 0;
    for (const json& lane : step["lanes"]) {
      std::int64_t busy = 0, at = 0;
      for (std::size_t i = 0; i < lane["dur"].size(); ++i) {
        EXPECT_GE(lane["gap"][i].get<std::int64_t>(), 0) << "nothing overlaps in a lane";
        at += lane["gap"][i].get<std::int64_t>() + lane["dur"][i].get<std::int64_t>();
        busy += lane["dur"][i].get<std::int64_t>();
      }
      EXPECT_LE(at, step["end"].get<std::int64_t>());
      (lane["copies"] ? copies : ops) += lane["dur"].size();
      if (!lane["copies"]) {
        EXPECT_EQ(busy, std::llround(drawn.step().measured.busy_s[lane["device"].get<std::size_t>()] * 1e9));
      }
    }
    EXPECT_EQ(ops, drawn.step().schedule.ops.size());
    EXPECT_EQ(copies, drawn.step().schedule.transfers.size());
    for (std::size_t d = 0; d < drawn.devices.size(); ++d) {
      std::int64_t held = 0, highest = 0;
      for (const json& change : step["memory"][d]["bytes"])
        highest = std::max(highest, held += change.get<std::int64_t>());
      EXPECT_EQ(highest, drawn.step().measured.peak_bytes[d]);
    }
    std::int64_t chain = 0;
    for (const json& part : step["chain"]["dur"]) chain += part.get<std::int64_t>();
    EXPECT_EQ(chain, step["end"].get<std::int64_t>());
  }
}

TEST(Report, StaysBelowFiveMegabytesForLargeGraphs) {
  const Drawn drawn{testing::large_graph(140'000), 4, 1};
  const std::string page = render_report(drawn.data);
  EXPECT_LT(page.size(), 5'000'000u);
  const json step = data_of(page)["graphs"][0]["task"]["steps"][0];
  EXPECT_TRUE(step["merged"]);
  std::uint64_t parts = 0;
  for (const json& lane : step["lanes"])
    for (const json& count : lane["count"]) parts += count.get<std::uint64_t>();
  EXPECT_EQ(parts, drawn.step().schedule.ops.size() + drawn.step().schedule.transfers.size())
      << "no row is left out";
  for (std::size_t d = 0; d < drawn.devices.size(); ++d) {
    std::int64_t held = 0, highest = 0;
    for (const json& change : step["memory"][d]["bytes"])
      highest = std::max(highest, held += change.get<std::int64_t>());
    EXPECT_EQ(highest, drawn.step().measured.peak_bytes[d]) << "no peak is lost";
  }
}

/// The report and the live page, as a browser gets them.
struct Pages {
  std::string saved, fragment;
};

TEST(Report, NoNameBecomesMarkup) {
  const std::vector<std::string> hostile{"</script><img src=x onerror=alert(1)>",
                                         "]]><svg onload=alert(1)>",
                                         "\"'><b>",
                                         "<!--<script>",
                                         "a\nb\r\x01",
                                         "\xE2\x80\xA8\xE2\x80\xA9",
                                         "{{data}}{{script}}"};
  const std::string broken = "\xFF\xC0</textarea><iframe>";
  const auto page_of = [&](bool with_names) {
    OpGraphBuilder builder;
    const auto name = [&](std::size_t i) {
      return with_names ? hostile[i % hostile.size()] : "plain" + std::to_string(i % hostile.size());
    };
    builder.set_name(name(0));
    for (std::uint32_t i = 0; i < 21; ++i) {
      OpSpec op;
      op.name = name(i) + std::to_string(i), op.group = name(i) + "/" + name(i + 1), op.type = name(i + 2);
      if (i > 0) op.inputs = {{i - 1, 0}};
      op.outputs = {{DType::kF32, {16}}};
      op.flops = 1'000'000;
      builder.add(std::move(op));
    }
    Drawn drawn{*std::move(builder).build(), 2, 5};
    ReportGraph& graph = drawn.data.graphs[0];
    const std::string odd = with_names ? broken : "odd";
    graph.name = graph.sha256 = name(0);
    for (std::string& device : graph.devices) device = name(1) + odd;
    graph.heuristics.push_back({name(2), false, {}, 0, 0, name(3) + odd});
    graph.learned[0].method = name(4), graph.curves[0].label = name(5) + odd;
    graph.task[0].step.label = name(0) + odd;
    graph.evaluate_command = name(0), graph.note = name(1), graph.bound = name(2);
    graph.remeasured = {{name(0), {{name(1), name(2)}}, {{0.1, 0.2}}}};
    drawn.data.run = name(0) + odd, drawn.data.run_command = name(1), drawn.data.in_progress = true;
    drawn.data.written = name(2), drawn.data.config_toml = name(0) + name(3) + odd;
    drawn.data.provenance = {{name(0), name(1) + odd}};
    drawn.data.policies = {
        {name(4) + odd, summarise_learning(std::vector<PolicySample>(50, {1, 0, 0, 1}), name(0))}};
    drawn.data.status_json = json{{"nodes", {{{"node", name(0)}, {"last_error", name(1)}}}}}.dump();
    return Pages{render_report(drawn.data), report_fragment(drawn.data)};
  };
  const Pages with = page_of(true), without = page_of(false);
  const std::string& page = with.saved;
  EXPECT_EQ(elements_of(page), elements_of(without.saved)) << "no element was made of a name";
  const json live = json::parse(with.fragment), plain = json::parse(without.fragment);
  const auto main = live["main"].get<std::string>();
  EXPECT_EQ(elements_of(main), elements_of(plain["main"].get<std::string>()));
  EXPECT_EQ(main.find(" style="), std::string::npos) << "the policy of the live page refuses inline styles";
  EXPECT_EQ(with.fragment.find('<'), std::string::npos);
  EXPECT_TRUE(is_utf8(page));
  const json data = data_of(page);
  EXPECT_EQ(data["graphs"].size(), 1u);
  EXPECT_THAT(data.dump(), HasSubstr("onerror")) << "the names are there, as text";
  const std::size_t at = page.find("id=\"data\">");
  const std::string raw = page.substr(at, page.find("</script>", at) - at);
  for (const char* end : {"<img", "<!--", "\xE2\x80\xA8"}) EXPECT_EQ(raw.find(end), std::string::npos);
}

TEST(Report, ShowsTheSpreadOfNoisyRows) {
  ReportData data;
  data.graphs = {made_up_graph()};
  const std::string head = "95th percentile, 5 % noise";
  EXPECT_THAT(render_report(data), Not(HasSubstr(head)));
  data.graphs[0].heuristics[1].p95_s = 0.7;     // Above 0.6 s.
  data.graphs[0].heuristics[2].p95_s = 0.1091;  // It does not fit.
  data.graphs[0].learned[0].p95_s = 0.4491;     // Below 0.45 s.
  const std::string page = render_report(data);
  EXPECT_THAT(page, HasSubstr(head));
  EXPECT_THAT(page, HasSubstr("<td>+17 %</td>"));
  EXPECT_THAT(page, HasSubstr("<td>-0.2 %</td>"));
  EXPECT_THAT(page, Not(HasSubstr("+9.1 %")));
}

TEST(Report, ShowsTheErrorOfTheCostsBesideEachStepTime) {
  ReportData data;
  data.graphs = {made_up_graph()};
  EXPECT_THAT(render_report(data), Not(HasSubstr("&plusmn;")));
  std::vector<TableRow>& heuristics = data.graphs[0].heuristics;
  heuristics[0].costs =
      StepCosts{.version = CostVersion::k1, .error = 0.25};  // Its machine was not measured.
  heuristics[1].costs = StepCosts{.version = CostVersion::k2, .error = 0.09};
  heuristics[2].costs = StepCosts{.version = CostVersion::k2, .error = 0.33};  // It does not fit.
  data.graphs[0].learned[0].costs = StepCosts{.version = CostVersion::k2, .error = 0.12};
  const std::string page = render_report(data);
  EXPECT_THAT(page, HasSubstr("<span>900.0 ms</span>"));
  EXPECT_THAT(page, HasSubstr("<span>600.0 ms &plusmn; 9 %</span>"));
  EXPECT_THAT(page, HasSubstr("<span>450.0 ms &plusmn; 12 %</span>"));
  EXPECT_THAT(page, HasSubstr("<dd>450.0 ms &plusmn; 12 %</dd>")) << "the card has the error too";
  EXPECT_THAT(page, Not(HasSubstr("33 %")));
}

TEST(Report, ShowsTheEntropyOfEachPolicyAndWhatSaturated) {
  ReportData data;
  data.graphs = {made_up_graph()};
  EXPECT_THAT(render_report(data), Not(HasSubstr("data-part=\"policy\""))) << "nothing has learned";
  std::vector<PolicySample> learning, saturated;
  for (std::uint64_t update = 1; update <= 100; ++update) {
    learning.push_back({update, 0.6931, 1, 0.1});
    saturated.push_back({update, update <= 20 ? 0.5 : 0, update <= 20 ? 9.0 : 0, 0.1});
  }
  data.policies = {{"learner, from scratch", summarise_learning(learning, "cure")},
                   {"learner, from <b>", summarise_learning(saturated, "set policy.placeto.means = true")}};
  for (const std::string& page :
       {render_report(data), json::parse(report_fragment(data))["main"].get<std::string>()}) {
    EXPECT_THAT(page, HasSubstr("data-part=\"policy\""));
    EXPECT_THAT(page, HasSubstr("a uniform choice between 2 devices has 0.69, a certain one 0"));
    EXPECT_THAT(page, HasSubstr("<td>0.69</td><td>0.69</td>"));
    EXPECT_THAT(page, HasSubstr("<td>0.50</td><td>0.50</td><td>0</td><td>0</td>"));
    const std::string warning =
        "Warning: learner, from &lt;b&gt;: the policy is saturated: the gradient was below 1e-10 in updates "
        "21 "
        "to "
        "100, so it learns nothing more; set policy.placeto.means = true.";
    const std::size_t at = page.find(warning);
    ASSERT_NE(at, std::string::npos) << page.substr(page.find("data-part=\"policy\""), 900);
    EXPECT_EQ(page.find("Warning: ", at + 1), std::string::npos) << "of the one that is saturated";
  }
}

TEST(Report, ShowsTheLastStateOfTheNodes) {
  ReportData data;
  data.graphs = {made_up_graph()};
  EXPECT_THAT(render_report(data), Not(HasSubstr("<div id=\"state\">"))) << "without a state";
  json status{{"phase", "ended"}, {"nodes", json::array()}};
  for (int i = 0; i < 10'000; ++i)
    status["nodes"].push_back(
        {{"node", "executor-" + std::to_string(i)}, {"last_error", std::string(400, '<')}});
  data.status_json = status.dump();
  const std::string page = render_report(data);
  EXPECT_THAT(page, HasSubstr("<div id=\"state\">"));
  EXPECT_LT(page.size(), 1'500'000u) << "as many nodes as fit";
  const json shown = data_of(page)["status"];
  EXPECT_EQ(shown["nodes_total"], 10'000);
  EXPECT_GT(shown["nodes"].size(), 100u);
  EXPECT_EQ(shown["nodes"][0]["node"], "executor-0");
  for (const char* broken : {"{", "[]", "null", "{\"nodes\":", "\xFF"}) {
    data.status_json = broken;
    EXPECT_THAT(render_report(data), Not(HasSubstr("<div id=\"state\">"))) << broken;
  }
  data.status_json = R"({"nodes": 7, "phase": []})";
  EXPECT_EQ(data_of(render_report(data))["status"]["nodes"], json::array());
}

TEST(LivePage, HasNoInlineCodeAndOnlyItsOwnFiles) {
  std::map<std::string, std::string_view> files;
  for (const LiveAsset& asset : live_assets()) files.emplace(asset.name, asset.bytes);
  ASSERT_EQ(live_assets().front().name, "index.html");
  const std::string html{files.at("index.html")};
  for (const char* inlined : {"<style", " style=", " on", "javascript:", "<iframe", "<base"})
    EXPECT_EQ(html.find(inlined), std::string::npos) << inlined;
  std::size_t scripts = 0;
  for (std::size_t at = html.find("<script"); at != std::string::npos; at = html.find("<script", at + 1)) {
    EXPECT_THAT(html.substr(at, html.find('>', at) - at), HasSubstr(" src=\"assets/"));
    EXPECT_EQ(html.substr(html.find('>', at) + 1, 9), "</script>");
    ++scripts;
  }
  EXPECT_EQ(scripts, 5u);
  for (std::size_t at = html.find("assets/"); at != std::string::npos; at = html.find("assets/", at + 1)) {
    const std::string name = html.substr(at + 7, html.find('"', at) - at - 7);
    EXPECT_EQ(files.count(name), 1u) << name;
  }
  for (const auto& [name, bytes] : files) {
    EXPECT_TRUE(is_utf8(bytes)) << name;
    if (name == "dygraphs.js") continue;
    for (const char* risky : {"innerHTML", "outerHTML =", "insertAdjacentHTML", "document.write", "eval(",
                              "new Function", "'style'", "http://", "https://"})
      EXPECT_EQ(bytes.find(risky), std::string_view::npos) << name << ": " << risky;
  }
}

TEST(LivePage, ReportHasLessDetail) {
  const Drawn drawn{testing::large_graph(40'000), 4, 1};
  const std::string text = report_fragment(drawn.data);
  EXPECT_LT(text.size(), 2'000'000u);
  const json live = json::parse(text);
  EXPECT_EQ(live["run"], "run");
  EXPECT_FALSE(live["in_progress"]);
  std::uint64_t parts = 0;
  const json& step = live["data"]["graphs"][0]["task"]["steps"][0];
  for (const json& lane : step["lanes"])
    for (const json& count : lane["count"]) parts += count.get<std::uint64_t>();
  EXPECT_EQ(parts, drawn.step().schedule.ops.size() + drawn.step().schedule.transfers.size());
  const auto main = live["main"].get<std::string>();
  for (const char* part :
       {"graph-0", "verdict", "methods", "curve", "gantt", "memory", "graph", "moves", "provenance"})
    EXPECT_THAT(main, HasSubstr("data-part=\"" + std::string{part} + "\"")) << part;
}

TEST(Report, LoadsNothing) {
  const Drawn drawn{testing::random_graph(3, 40), 2, 3};
  const std::string page = render_report(drawn.data);
  for (const char* loader : {" src=", " href=", "@import", "url(", "<link", "<iframe", "sourceMappingURL"})
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("Dan Vanderkam")) << "the licence of what is embedded";
}

TEST(Report, OmitsPicturesWithoutAGraph) {
  ReportData data;
  data.graphs = {made_up_graph()};
  data.graphs[0].note = "The schedule cannot be drawn: graph.json: cannot be read.";
  const std::string page = render_report(data);
  EXPECT_THAT(page, HasSubstr("cannot be drawn"));
  EXPECT_THAT(page, Not(HasSubstr("data-chart=\"gantt\"")));
}

TEST(ScopeMap, SumsUpToTheGraphAndItsTraffic) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Drawn drawn{testing::random_graph(seed, 60), 2, seed};
    const CostTable costs{drawn.graph, drawn.devices};
    const ScopeMap map = scope_map(drawn.graph, costs, drawn.devices.size(), drawn.step().placement,
                                   drawn.step().schedule, 1'000, 1'000);
    std::size_t ops = 0;
    std::vector<std::int64_t> time_ns(drawn.devices.size(), 0);
    for (const ScopeNode& node : map.nodes) {
      ops += node.ops;
      for (std::size_t d = 0; d < time_ns.size(); ++d) time_ns[d] += node.time_ns[d];
    }
    EXPECT_EQ(ops, drawn.graph.num_ops());
    for (std::size_t d = 0; d < time_ns.size(); ++d)
      EXPECT_EQ(time_ns[d], std::llround(drawn.step().measured.busy_s[d] * 1e9));
    std::int64_t cut = 0;
    for (const ScopeEdge& edge : map.edges) cut += edge.cut_bytes;
    EXPECT_EQ(cut, drawn.step().measured.bytes_moved);
  }
}

TEST(ScopeMap, GraphWithoutScopesIsCutIntoRanges) {
  const OpGraph graph = testing::sample_graph({{"a"}, {"b", {{0, 0}}}, {"c", {{1, 0}}}});
  const DeviceSet devices = testing::sample_devices(1, false, kRoomy);
  const ScopeMap map =
      scope_map(graph, CostTable{graph, devices}, 1, Placement(3, DeviceId{0}), {}, 1'000, 1'000);
  EXPECT_EQ(map.scopes, (std::vector<std::string>{"part 01/01", "part 01/02", "part 01/03"}));
}

TEST(Moves, CountsOpsOnOtherDevices) {
  const OpGraph graph = testing::sample_graph(
      {{"a", {}, {100}, 5, 50}, {"b", {{0, 0}}, {200}, 7, 70}, {"c", {{1, 0}}, {300}, 9, 90}});
  const DeviceSet devices = testing::sample_devices(2, true, kRoomy);  // cpu:0, gpu:0, gpu:1
  const DeviceId cpu{0}, gpu0{1}, gpu1{2};
  const CostTable costs{graph, devices};
  const Moves moves = moves_between(graph, devices, costs, {"s/t01/x", "s/t02/x"}, {0, 1, 1},
                                    {cpu, gpu0, gpu0}, {gpu0, gpu0, gpu0});
  ASSERT_EQ(moves.moves.size(), 1u);
  EXPECT_EQ(moves.moves[0].scope, "s/x");
  EXPECT_EQ(moves.moves[0].from, cpu);
  EXPECT_EQ(moves.moves[0].time_from_ns, 50'000);
  EXPECT_EQ(moves.moves[0].time_to_ns, 5'000);
  EXPECT_EQ(moves.total.bytes, 100);
  const Moves swapped =
      moves_between(graph, devices, costs, {"s"}, {0, 0, 0}, {gpu0, gpu1, gpu1}, {gpu1, gpu0, gpu0});
  EXPECT_EQ(swapped.total.ops, 0u) << "only the names of two equal GPUs have changed";
  EXPECT_EQ(swapped.named[index(gpu0)], gpu1);
}

}  // namespace
}  // namespace emplace::record
