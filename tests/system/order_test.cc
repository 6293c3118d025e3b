// Goal: an order goes with the placement: `place --order search` writes it, `evaluate`, `explain` and
// `export` obey it, the CPU executor starts ops in it and computes the same, and an order that is not one of
// this graph is refused. Method: the built programs as processes, on small real training steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/json_of.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using testing::Finished;
using ::testing::HasSubstr;
using testing::json_of;
using testing::kDevices;
using testing::kGraph;
using testing::run;
using testing::shipped;
using testing::TemporaryFolder;

ordered_json json_file(const std::string& path) {
  std::ifstream file{path};
  return ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
}

class OrderOfOps : public ::testing::Test {
 protected:
  std::string at(const char* name) const { return (folder_.path() / name).string(); }
  ordered_json place(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"place", kGraph, "-d", kDevices, "--budget", "2s", "-o", placement_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments);
  }
  void write(const ordered_json& placement) const { std::ofstream{placement_} << placement.dump(); }

  const TemporaryFolder folder_;
  const std::string placement_ = at("p.json");
};

/// Eight pairs of an op that makes a large tensor and one that reduces it, first all of the first kind: on
/// one device they fit only if each tensor is reduced at once.
ordered_json hoarding_graph() {
  const auto op = [](std::size_t id, const std::string& name, const std::string& type,
                     const ordered_json& inputs, int elements) {
    return ordered_json{{"id", id},
                        {"name", name},
                        {"type", type},
                        {"inputs", inputs},
                        {"outputs", ordered_json::array({{{"dtype", "f32"}, {"shape", {elements}}}})},
                        {"attrs", ordered_json::object()},
                        {"flops", 1000},
                        {"param_bytes", 0},
                        {"phase", "forward"}};
  };
  constexpr std::size_t kPairs = 8;
  auto ops = ordered_json::array({op(0, "input", "Input", ordered_json::array(), 1)});
  auto sums = ordered_json::array();
  for (std::size_t k = 0; k < kPairs; ++k)
    ops.push_back(op(1 + k, "make" + std::to_string(k), "aten::mul", {{0, 0}}, 1000));
  for (std::size_t k = 0; k < kPairs; ++k) {
    ops.push_back(op(1 + kPairs + k, "use" + std::to_string(k), "aten::sum", {{1 + k, 0}}, 1));
    sums.push_back({1 + kPairs + k, 0});
  }
  ops.push_back(op(1 + 2 * kPairs, "total", "aten::stack", sums, 1));
  return {{"format", "emplace-graph v1"},
          {"name", "hoarding"},
          {"source", "test"},
          {"meta", ordered_json::object()},
          {"ops", ops}};
}

TEST_F(OrderOfOps, MakesAGraphFitInEveryCommand) {
  const std::string graph = at("hoarding.json"), devices = at("one.toml");
  std::ofstream{graph} << hoarding_graph().dump();
  std::ofstream{devices} << "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\nmemory = \"6000B\"\n";
  const Finished issue = run({"place", graph, "-d", devices, "--budget", "500ms", "-o", placement_});
  EXPECT_EQ(issue.status, 3) << issue.out;
  const ordered_json placed =
      json_of({"place", graph, "-d", devices, "--budget", "500ms", "--order", "search", "-o", placement_});
  ASSERT_EQ(placed["order"], "search") << placed;
  EXPECT_TRUE(placed["order_gain"]["issue_order_best_s"].is_null());
  EXPECT_TRUE(placed["order_gain"]["issue_order_step_time_s"].is_null());
  EXPECT_GT(placed["order_gain"]["issue_order_peak_memory_bytes"][0].get<int>(), 8 * 4000);
  EXPECT_LE(placed["measured"]["peak_memory_bytes"][0].get<int>(), 6000);
  EXPECT_GE(placed["measured"]["step_time_s"].get<double>(), placed["lower_bound_s"].get<double>());
  const Finished text =
      run({"place", graph, "-d", devices, "--budget", "500ms", "--order", "search", "-o", placement_});
  EXPECT_THAT(text.out,
              HasSubstr("order      searched; in issue order this placement does not fit: gpu:0 needs"));
  const ordered_json compared =
      json_of({"compare", graph, "-d", devices, "-m", "single-gpu,auto,auto+order", "--budget", "500ms"});
  EXPECT_EQ(compared["methods"][0]["valid"], false);
  EXPECT_EQ(compared["methods"][1]["valid"], false);
  EXPECT_EQ(compared["methods"][2]["method"], "auto+order");
  EXPECT_EQ(compared["methods"][2]["step_time_s"], placed["measured"]["step_time_s"]);
  ordered_json file = json_file(placement_);
  ASSERT_EQ(file["order"].size(), file["ops"].size());
  EXPECT_EQ(file["version"], 1);

  const ordered_json evaluated = json_of({"evaluate", graph, placement_, "-d", devices});
  EXPECT_EQ(evaluated["order"], "placement file");
  EXPECT_EQ(evaluated["step_time_s"], file["measured"]["step_time_s"]);
  EXPECT_EQ(evaluated["peak_memory_bytes"], file["measured"]["peak_memory_bytes"]);
  EXPECT_THAT(run({"evaluate", graph, placement_, "-d", devices}).err,
              HasSubstr("order: from the placement file"));

  const ordered_json explained = json_of({"explain", placement_, "--graph", graph, "--devices", devices});
  EXPECT_EQ(explained["order"], "placement file");
  EXPECT_EQ(explained["step_time_s"], file["measured"]["step_time_s"]);
  EXPECT_EQ(explained["in_issue_order"]["valid"], false);
  EXPECT_GT(explained["in_issue_order"]["peak_memory_bytes"][0].get<int>(), 8 * 4000);
  const Finished shown = run({"explain", placement_, "--graph", graph, "--devices", devices});
  EXPECT_THAT(shown.out, HasSubstr("order: from the placement file; in issue order the step takes "));
  EXPECT_THAT(shown.out, HasSubstr("peak memory, and in issue order: gpu:0 "));

  const ordered_json exported =
      json_of({"export", placement_, "--graph", graph, "-d", devices, "--to", "csv", "-o", at("p.csv")});
  EXPECT_EQ(exported["step_time_s"], file["measured"]["step_time_s"]);
  std::ifstream lines{at("p.csv")};
  std::string line;
  std::getline(lines, line);
  for (const auto& op : file["order"]) {
    std::getline(lines, line);
    EXPECT_EQ(line.substr(0, line.find(',')), op.get<std::string>());
  }

  file.erase("order");
  write(file);
  EXPECT_FALSE(json_of({"evaluate", graph, placement_, "-d", devices}, 3).contains("order"));
}

TEST_F(OrderOfOps, OrderOfAnotherGraphIsRefusedInOneLine) {
  place({"-m", "expert"});
  const ordered_json file = json_file(placement_);
  std::vector<std::string> ops;
  for (const auto& [op, device] : file["ops"].items()) ops.push_back(op);
  const auto refusal = [&](const ordered_json& order, const char* field = "order") {
    ordered_json wrong = file;
    wrong["order"] = order;
    if (field != std::string{"order"}) wrong[field] = "another";
    write(wrong);
    const Finished done = run({"evaluate", kGraph, placement_, "-d", kDevices, "--quiet"});
    EXPECT_EQ(done.status, 2);
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    return done.err;
  };
  EXPECT_THAT(refusal(ops, "graph_sha256"), HasSubstr("is a placement for another graph"));
  std::vector<std::string> other = ops;
  other.front() = "nowhere";
  EXPECT_THAT(refusal(other), HasSubstr("its order names op 'nowhere', which the graph lacks"));
  other.pop_back();
  other.front() = ops.front();
  EXPECT_THAT(refusal(other), HasSubstr("ops, the graph has"));
}

TEST_F(OrderOfOps, NeedsTheStepTimeProgramDispatchAndAuto) {
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"place", kGraph, "-d", kDevices, "--budget", "1s"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2);
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    return done.err;
  };
  EXPECT_THAT(refused({"--order", "searched"}), HasSubstr("use issue or search"));
  EXPECT_THAT(refused({"--order", "search", "--objective", "max-load"}),
              HasSubstr("needs --objective step-time"));
  EXPECT_THAT(refused({"--order", "search", "--dispatch", "fifo"}), HasSubstr("needs --dispatch program"));
  EXPECT_THAT(refused({"--order", "search", "-m", "heft"}), HasSubstr("needs --method auto"));
}

TEST_F(OrderOfOps, CpuExecutorObeysItAndComputesTheSame) {
  const auto helper = std::filesystem::path{EMPLACE_PROGRAM}.parent_path() / "emplace-exec-cpu";
  if (!std::filesystem::exists(helper)) GTEST_SKIP() << "emplace-exec-cpu was not built: no oneDNN here";
  const std::string graph = shipped("configs/graphs/cifar10_cnn-bs32.json.gz"),
                    devices = shipped("configs/devices/cpu-2core.toml");
  ASSERT_EQ(run({"place", graph, "-d", devices, "-m", "single-cpu", "-o", placement_}).status, 0);
  // Any topological order but that of the ids: the ready op with the greatest id comes next. Edges come from
  // the graph file.
  ASSERT_EQ(run({"import", graph, "-o", at("g.json")}).status, 0);
  const ordered_json plain = json_file(at("g.json"));
  const auto& ops = plain["ops"];
  std::map<std::size_t, std::size_t> number;
  for (std::size_t k = 0; k < ops.size(); ++k) number[ops[k]["id"].get<std::size_t>()] = k;
  std::vector<bool> done(ops.size(), false);
  std::vector<std::string> order;
  while (order.size() < ops.size()) {
    for (std::size_t k = ops.size(); k-- > 0;) {
      const auto& inputs = ops[k]["inputs"];
      const bool ready = std::all_of(inputs.begin(), inputs.end(), [&](const auto& input) {
        return done[number[input[0].template get<std::size_t>()]];
      });
      if (done[k] || !ready) continue;
      done[k] = true;
      order.push_back(ops[k]["name"]);
      break;
    }
  }
  ordered_json file = json_file(placement_);
  file["order"] = order;
  write(file);
  const ordered_json measured =
      json_of({"evaluate", graph, placement_, "-d", devices, "--executor", "cpu", "--warmups", "1",
               "--samples", "1", "--verify", "--trace", at("t.json")});
  EXPECT_EQ(measured["order"], "placement file");
  EXPECT_EQ(measured["verified"], true) << measured;
  EXPECT_GT(measured["compared"].get<int>(), 50);

  // On one device the next op of the order is always ready, so the ops start exactly in it.
  std::map<std::string, std::size_t> position;
  for (std::size_t k = 0; k < order.size(); ++k) position[order[k]] = k;
  std::vector<std::pair<double, std::size_t>> starts;
  const ordered_json trace = json_file(at("t.json"));
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("ph", "") != "X") continue;
    const auto known = position.find(event.value("name", ""));
    if (known != position.end()) starts.emplace_back(event["ts"].get<double>(), known->second);
  }
  ASSERT_GT(starts.size(), 40u);
  std::sort(starts.begin(), starts.end());
  EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; }));
}

}  // namespace
}  // namespace emplace
