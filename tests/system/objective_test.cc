// Goal: --objective in the whole program: workloads contain their machine, values are in the file's unit,
// evaluate confirms the result of place, and a run learns by it. Method: the built program on published
// workloads and its own graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "tests/system/json_of.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kFolder = shipped("tests/fixtures/third_party/dnn-partitioning/");
const std::string kLatency = kFolder + "latency/bert24_inference.json";
const std::string kLoad = kFolder + "throughput/bert24_training.json";

/// The one line of a command that must end with status 2.
std::string refusal(const std::vector<std::string>& arguments, int status = 2) {
  const Finished done = run(arguments);
  EXPECT_EQ(done.status, status) << done.out;
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  EXPECT_THAT(done.err, StartsWith("error: "));
  return done.err;
}

TEST(Objective, EvaluateConfirmsTheValueOfPlace) {
  for (const auto& [graph, objective, best_ms] :
       {std::tuple{kLatency, "latency", 100.2185}, std::tuple{kLoad, "max-load", 41.7458125}}) {
    const TemporaryFolder folder;
    const std::string file = folder.at("placement.json");
    const nlohmann::ordered_json placed =
        json_of({"place", graph, "--objective", objective, "-m", "contiguous", "-o", file, "--threads", "2"});
    EXPECT_EQ(placed["objective"], objective);
    EXPECT_NEAR(placed["objective_value"].get<double>(), best_ms, 1e-6);  // Milliseconds, as in the file.
    EXPECT_NEAR(placed["measured"]["step_time_s"].get<double>(), best_ms * 1e-3, 1e-9);
    EXPECT_EQ(json_of({"evaluate", graph, file, "--objective", objective}), placed["measured"]);
    const nlohmann::ordered_json bound = json_of({"bound", graph, "--objective", objective});
    EXPECT_EQ(bound["lower_bound_s"], placed["lower_bound_s"]);
    EXPECT_NEAR(bound["objective_value"].get<double>(), bound["lower_bound_s"].get<double>() * 1e3, 1e-9);
    EXPECT_LE(bound["objective_value"].get<double>(), best_ms);
    const nlohmann::ordered_json table = json_of({"compare", graph, "--objective", objective});
    EXPECT_EQ(table["lower_bound_s"], placed["lower_bound_s"]);
    for (const auto& row : table["methods"]) {
      if (!row["valid"].get<bool>()) continue;
      EXPECT_GE(row["objective_value"].get<double>(), bound["objective_value"].get<double>());
      if (row["method"] != "contiguous") continue;
      EXPECT_NEAR(row["objective_value"].get<double>(), best_ms, 1e-6);
    }
  }
}

TEST(Objective, AutoIsNoWorseThanItsFindingsAndBeatsContiguousSplits) {
  const nlohmann::ordered_json placed =
      json_of({"place", kLoad, "--objective", "max-load", "--budget", "1s", "--threads", "2"});
  EXPECT_LT(placed["objective_value"].get<double>(), 41.7458);
  EXPECT_GT(placed["evaluations"].get<double>(), 10'000);
  ASSERT_FALSE(placed["findings"].empty());
  EXPECT_EQ(placed["findings"].back()["step_time_s"], placed["measured"]["step_time_s"]);
}

TEST(Objective, ThroughputWorksForAnyGraphAndReportsItsExactness) {
  const nlohmann::ordered_json placed =
      json_of({"place", kGraph, "-d", kDevices, "--objective", "throughput", "-m", "contiguous"});
  EXPECT_THAT(placed["note"].get<std::string>(), AnyOf(HasSubstr("exact, over co-location classes"),
                                                       HasSubstr("groups of ops; finer ones have")));
  EXPECT_EQ(placed["objective_value"],
            placed["measured"]["step_time_s"]);  // In seconds, because the graph has no machine.
  EXPECT_GE(placed["objective_value"].get<double>(), placed["lower_bound_s"].get<double>());
  const Finished table = run({"compare", kLoad, "--objective", "max-load", "-m", "contiguous"});
  EXPECT_THAT(table.out, ::testing::AllOf(HasSubstr("  max-load"), ::testing::Not(HasSubstr("step time"))));
  EXPECT_THAT(table.out, HasSubstr("contiguous: exact, over co-location classes"));
}

/// A head of 250 MiB that a GPU of 100 MiB would run faster than its CPU: a copy of it takes memory there.
TEST(Objective, WhatIsReadTakesMemoryUnderEveryObjective) {
  const TemporaryFolder folder;
  const std::string graph = folder.file("head.json", R"({"format":"emplace-graph v1","name":"head","ops":[
{"id":0,"name":"head","type":"Parameter","inputs":[],"outputs":[{"dtype":"f32","shape":[65536000]}],"param_bytes":262144000},
{"id":1,"name":"x","type":"Input","inputs":[],"outputs":[{"dtype":"f32","shape":[1000]}]},
{"id":2,"name":"mm","type":"MatMul","inputs":[[1,0],[0,0]],"outputs":[{"dtype":"f32","shape":[65536]}],"flops":900000000000},
{"id":3,"name":"loss","type":"Sum","inputs":[[2,0]],"outputs":[{"dtype":"f32","shape":[1]}],"flops":65536}]})");
  const std::string devices =
      folder.file("small.toml",
                  "[[device]]\nname = \"gpu:0\"\nprofile = \"rtx3060\"\nmemory = \"100MiB\"\n"
                  "[[device]]\nname = \"cpu:0\"\nprofile = \"ryzen7950x\"\n");
  const std::string file = folder.at("placement.json");
  for (const char* objective : {"step-time", "throughput", "max-load", "latency"}) {
    const nlohmann::ordered_json placed = json_of({"place", graph, "-d", devices, "--objective", objective,
                                                   "--budget", "300ms", "--threads", "1", "-o", file});
    EXPECT_TRUE(placed["measured"]["valid"].get<bool>());
    const nlohmann::ordered_json again =
        json_of({"evaluate", graph, file, "-d", devices, "--objective", objective});
    EXPECT_EQ(again, placed["measured"]);
    EXPECT_TRUE(json_of({"evaluate", graph, file, "-d", devices})["valid"].get<bool>()) << objective;
  }
  std::ifstream in{file};
  nlohmann::ordered_json placement = nlohmann::ordered_json::parse(in);
  placement["ops"] = {{"head", "cpu:0"}, {"x", "cpu:0"}, {"mm", "gpu:0"}, {"loss", "cpu:0"}};
  const std::string copied = folder.file("copied.json", placement.dump());
  for (const char* objective : {"step-time", "throughput", "max-load", "latency"}) {
    const Finished done = run({"evaluate", graph, copied, "-d", devices, "--objective", objective});
    EXPECT_EQ(done.status, 3);
    EXPECT_THAT(done.err, HasSubstr("gpu:0 needs 250.2")) << objective;
  }
}

TEST(Objective, ProfileOfOneKindOfDeviceStaysOnIt) {
  const std::string profile = shipped("tests/fixtures/graphs/pipedream-alexnet.json");
  const TemporaryFolder folder;
  const std::string file = folder.at("placement.json");
  const std::vector<std::string> place{
      "place", profile, "-d", "rtx3090, epyc7742", "--budget", "300ms", "--threads", "1", "-o", file};
  const nlohmann::ordered_json placed = json_of(place);
  EXPECT_THAT(placed["assumed"].dump(),
              HasSubstr("46 ops have times measured on gpu and unknown work: they stay off cpu:0"));
  EXPECT_EQ(placed["measured"]["peak_memory_bytes"][1], 0);
  EXPECT_THAT(run(place).err, HasSubstr("they stay off cpu:0, unless a rule allows it"));
  std::vector<std::string> ruled = place;
  ruled.insert(ruled.end(),
               {"--rules", folder.file("all.toml", "[[rule]]\nmatch = { name = '.' }\nallow = [\"*\"]\n")});
  const nlohmann::ordered_json elsewhere = json_of(ruled);
  EXPECT_LT(elsewhere["measured"]["step_time_s"].get<double>(),
            placed["measured"]["step_time_s"].get<double>());
  EXPECT_THAT(elsewhere["assumed"].dump(),
              HasSubstr("on cpu:0 their time is estimated from the bytes that they move"));
}

TEST(Objective, RefusesInOneLine) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal({"bound", kLatency, "--objective", "latancy"}), HasSubstr("did you mean 'latency'?"));
  const std::string file = folder.at("placement.json"), trace = folder.at("trace.json");
  ASSERT_EQ(run({"place", kLatency, "--objective", "latency", "-m", "contiguous", "-o", file}).status, 0);
  EXPECT_THAT(refusal({"evaluate", kLatency, file, "--objective", "latency", "--trace", trace}),
              HasSubstr("--trace: needs --objective step-time"));
  EXPECT_FALSE(std::filesystem::exists(trace));
  EXPECT_THAT(refusal({"place", kLatency, "--budget", "1e30s"}), HasSubstr("--budget '1e30s': is too long"));
  EXPECT_THAT(refusal({"place", kLatency, "--samples", "abc"}), HasSubstr("--samples 'abc'"));
  EXPECT_THAT(refusal({"place", kLatency, "-m", "sweep", "--budget", "0s"}),
              HasSubstr("sweep needs a budget above 0"));
  EXPECT_THAT(refusal({"evaluate", kLatency, file, "--verify"}),
              HasSubstr("--verify: needs a real executor"));
  const std::string broken = folder.file("broken.json", R"({"maxFPGAs": 1, "maxCPUs": 1, "nodes": 3})");
  EXPECT_THAT(refusal({"bound", broken}), HasSubstr("broken.json: has no maxSizePerFPGA"));
}

TEST(Objective, CyclicSplitIsRefusedWithItsReason) {
  const TemporaryFolder folder;
  std::string nodes;
  for (const char* id : {"0", "1", "2", "3"})
    nodes += std::string{id[0] == '0' ? "" : ","} + R"({"name":"n","id":)" + id +
             R"(,"cpuLatency":1,"fpgaLatency":1,"size":1})";
  const std::string graph = folder.file(
      "circle.json",
      R"({"maxFPGAs":2,"maxCPUs":1,"maxSizePerFPGA":9,"nodes":[)" + nodes +
          R"(],"edges":[{"sourceId":0,"destId":1,"cost":1},{"sourceId":2,"destId":3,"cost":1}]})");
  const std::string file = folder.at("placement.json");
  ASSERT_EQ(run({"place", graph, "--objective", "latency", "-m", "single-cpu", "-o", file}).status, 0);
  std::ifstream in{file};
  nlohmann::ordered_json placement = nlohmann::ordered_json::parse(in);
  placement["ops"] = {{"n#0", "accel:0"}, {"n#1", "accel:1"}, {"n#2", "accel:1"}, {"n#3", "accel:0"}};
  const std::string circle = folder.file("circle.placement.json", placement.dump());
  const Finished done = run({"evaluate", graph, circle, "--objective", "latency"});
  EXPECT_EQ(done.status, 3);
  EXPECT_THAT(done.err, HasSubstr("cycle"));
  EXPECT_EQ(run({"evaluate", graph, circle, "--objective", "max-load"}).status, 0);
}

class Interrupted : public ::testing::TestWithParam<const char*> {};

TEST_P(Interrupted, PlaceWritesAndReportsTheBestSoFar) {
  const TemporaryFolder folder;
  const std::string file = folder.at("placement.json");
  // Its bound is far below any placement, so no method ends by itself.
  const std::string graph = kFolder + "latency/inceptionv3_inference.json.gz";
  Process process{{"place", graph, "--objective", "latency", "--budget", "60s", "-o", file, "--threads", "2",
                   "-m", GetParam(), "--json"}};
  const SystemClock clock;
  const Nanos started = clock.now();
  while (!std::filesystem::exists(file) && clock.now() - started < std::chrono::seconds{30})
    std::this_thread::yield();
  process.send(SIGINT);
  const Finished done = process.finish();
  EXPECT_EQ(done.status, 130) << done.err;
  const nlohmann::ordered_json result =
      nlohmann::ordered_json::parse(done.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(result.is_object()) << done.out;
  const Finished left = run({"evaluate", graph, file, "--objective", "latency", "--json"});
  ASSERT_EQ(left.status, 0) << left.err;
  EXPECT_EQ(nlohmann::ordered_json::parse(left.out), result["measured"]);
}

INSTANTIATE_TEST_SUITE_P(Methods, Interrupted, ::testing::Values("auto", "anneal", "local-search"));

TEST(Objective, RunLearnsByItAndItsReplayVerifies) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run");
  const nlohmann::ordered_json summary =
      json_of(small_run(directory, {"--set", "input.graph=" + kLatency, "--set", "input.devices=", "--set",
                                    "objective.kind=latency", "--set", "run.deterministic=true", "--set",
                                    "run.starts=[\"scratch\"]", "--episodes", "30", "--quiet"}));
  const std::string best = directory + "/best.placement.json";
  const nlohmann::ordered_json measured = json_of({"evaluate", kLatency, best, "--objective", "latency"});
  EXPECT_TRUE(measured["valid"].get<bool>());
  EXPECT_DOUBLE_EQ(measured["step_time_s"].get<double>(), summary["best_step_time_s"].get<double>());
  EXPECT_GE(measured["step_time_s"].get<double>(), summary["lower_bound_s"].get<double>());
  EXPECT_NEAR(summary["baseline_step_time_s"]["contiguous"].get<double>(), 0.1002185, 1e-9);
  const Finished verified = run({"replay", directory, "--verify"});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("identical"));
  const Finished report = run({"report", directory});
  EXPECT_EQ(report.status, 0) << report.err;
  std::ifstream page{directory + "/report.html"};
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>{page}, {}), HasSubstr("--objective latency"));
}

}  // namespace
}  // namespace emplace::testing
