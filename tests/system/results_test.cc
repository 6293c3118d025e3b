// Goal: everything that scripts rely on: the keys and values of --json, files that one command writes and
// another reads, results that repeat with the seed, and no recommendation that is silently worse than a
// single device. Method: the built program as a process, its output parsed as a script would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/system/json_of.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::json_of;
using testing::kDevices;
using testing::keys;
using testing::kGraph;
using ::testing::Not;
using testing::run;
using testing::shipped;
using testing::TemporaryFolder;

const std::string kNmt = shipped("configs/graphs/nmt-2layer-bs64.json.gz");

TEST(Results, CompareListsEveryMethodWithTheAgreedKeys) {
  const ordered_json table = json_of({"compare", kNmt, "--devices", kDevices});
  EXPECT_THAT(keys(table), ElementsAre("graph", "devices", "objective", "lower_bound_s", "methods", "assumed",
                                       "uncounted"));
  EXPECT_EQ(table["graph"], "nmt-2layer-bs64");
  EXPECT_EQ(table["devices"], (ordered_json{"cpu:0", "gpu:0", "gpu:1"}));
  std::vector<std::string> names;
  for (const auto& row : table["methods"]) {
    names.push_back(row["method"]);
    if (!row["valid"].get<bool>()) {
      EXPECT_TRUE(row["step_time_s"].is_null());
      EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr("gpu:0 needs 3.04 GiB and has 2.50 GiB"));
      continue;
    }
    if (row.contains("transforms_graph")) {
      EXPECT_THAT(row["method"].get<std::string>(), ::testing::StartsWith("towers-"));
      EXPECT_THAT(row["note"].get<std::string>(), ::testing::Not(::testing::IsEmpty()));
      continue;
    }
    EXPECT_THAT(keys(row), ElementsAre("method", "valid", "step_time_s", "objective_value", "costs",
                                       "difference_error", "differs_from_best", "peak_memory_bytes",
                                       "bytes_moved", "evaluations", "wall_s"));
    EXPECT_GT(row["step_time_s"].get<double>(), table["lower_bound_s"].get<double>());
    EXPECT_EQ(row["peak_memory_bytes"].size(), 3u);
  }
  std::vector<std::string> expected{"single-cpu", "single-gpu", "random", "round-robin", "expert",
                                    "contiguous", "scotch",     "mincut", "mincut-cpu",  "metis",
                                    "m-topo",     "m-etf",      "m-sct",  "heft"};
  if (EMPLACE_LAB) expected.insert(expected.end(), {"towers-sync", "towers-async"});
  EXPECT_EQ(names, expected);
}

TEST(Results, TableHasARowPerMethodAndTheBound) {
  const Finished done = run({"compare", kNmt, "-d", kDevices, "-m", "single-gpu,expert"});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.err, IsEmpty());
  for (const char* text : {"single-gpu", "does not fit", "expert", "peak gpu:1", "325.1 ms", "best: expert"})
    EXPECT_THAT(done.out, HasSubstr(text));
}

TEST(Results, PlacementFileHasTheSameStepTime) {
  const TemporaryFolder folder;
  const std::string file = folder.at("placement.json");
  const ordered_json placed = json_of({"place", kNmt, "-d", kDevices, "--method", "expert", "-o", file});
  EXPECT_THAT(keys(placed),
              ElementsAre("measured", "method", "placement", "objective", "objective_value", "lower_bound_s",
                          "bound", "optimal", "evaluations", "wall_s", "slower_than_single_device", "order",
                          "findings", "costs", "assumed", "uncounted"));
  EXPECT_FALSE(placed["optimal"]);
  EXPECT_EQ(placed["method"], "expert");
  EXPECT_EQ(placed["placement"], file);
  ordered_json measured = json_of({"evaluate", kNmt, file, "-d", kDevices});
  EXPECT_THAT(keys(measured),
              ElementsAre("step_time_s", "valid", "peak_memory_bytes", "busy_s", "bytes_moved", "executor",
                          "label", "samples_s", "objective", "objective_value", "costs"));
  const ordered_json costs = measured["costs"];
  EXPECT_THAT(keys(costs), ElementsAre("version", "sources", "error"));
  EXPECT_THAT(keys(costs["sources"]), ElementsAre("calibrated", "measured", "family", "data-sheet"));
  EXPECT_EQ(costs["version"], 1) << "a device file that states none";
  EXPECT_EQ(costs["sources"]["data-sheet"], 1.0);
  EXPECT_EQ(placed["costs"], costs);
  EXPECT_EQ(measured["label"], "simulated");
  EXPECT_EQ(measured, placed["measured"]);
  EXPECT_EQ(measured["executor"], "sim");
  EXPECT_EQ(measured["samples_s"].size(), 1u);
}

// Placeto's simulator on the command line gives the library's value
// (tests/executor/sim/placeto_simulator_test.cc) to the bit, whatever memory and links the machine has.
TEST(Results, PlacetosSimulatorMeasuresPlacesAndRunsTheSame) {
  const TemporaryFolder folder;
  const std::string graph = folder.file("two.json", R"({"format":"emplace-graph v1","name":"two","ops":[
    {"id":0,"name":"a","type":"Work","inputs":[],"outputs":[{"dtype":"u8","shape":[7600]}],"measured_us":{"gpu":10}},
    {"id":1,"name":"b","type":"Work","inputs":[[0,0]],"outputs":[{"dtype":"u8","shape":[4]}],"measured_us":{"gpu":20}}
  ]})");
  const std::string devices =
      folder.file("two.toml",
                  "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\nmemory = \"1KiB\"\n"
                  "[[device]]\nname = \"gpu:1\"\nprofile = \"k40\"\nmemory = \"1KiB\"\n"
                  "[[link]]\nbetween = [\"*\", \"*\"]\nprofile = \"pcie3_x16\"\n");
  const std::string file = folder.at("placement.json");
  const std::vector<std::string> placeto{"-d", devices, "--executor", "placeto"};
  const auto with = [&](std::vector<std::string> command) {
    command.insert(command.end(), placeto.begin(), placeto.end());
    return command;
  };
  const ordered_json placed = json_of(with({"place", graph, "-m", "round-robin", "-o", file}));
  EXPECT_EQ(placed["measured"]["executor"], "placeto");
  EXPECT_EQ(placed["lower_bound_s"], 0) << "no bound is proven for it";
  EXPECT_EQ(placed["bound"], "none");
  ordered_json measured = json_of(with({"evaluate", graph, file}));
  EXPECT_EQ(measured["step_time_s"], (10 + 7600 / 7600.0 + 20 + 5.7) * 1e-6);
  EXPECT_EQ(measured["label"], "simulated");
  EXPECT_TRUE(measured["valid"]);
  EXPECT_EQ(measured, placed["measured"]);
  const ordered_json compared = json_of(with({"compare", graph, "-m", "round-robin"}));
  EXPECT_EQ(compared["methods"][0]["step_time_s"], measured["step_time_s"]);
  EXPECT_EQ(compared["lower_bound_s"], 0) << "no bound is proven for it";
  EXPECT_EQ(json_of({"evaluate", graph, file, "-d", devices}, 3)["valid"], false) << "1 KiB is too little";
  EXPECT_THAT(run(with({"evaluate", graph, file})).err, HasSubstr("has no memory: every placement fits"));
  const auto refusal = [&](std::vector<std::string> command) {
    const Finished done = run(with(std::move(command)));
    EXPECT_EQ(done.status, 2) << done.err;
    return done.err;
  };
  EXPECT_THAT(refusal({"evaluate", graph, file, "--trace", folder.at("t.json")}),
              HasSubstr("--trace: has no schedule"));
  EXPECT_THAT(refusal({"evaluate", graph, file, "--objective", "latency"}),
              HasSubstr("simulates only step times"));
  EXPECT_THAT(refusal({"place", graph, "--order", "search"}), HasSubstr("needs --executor sim"));
  EXPECT_THAT(refusal({"compare", graph, "-m", "auto+order"}), HasSubstr("needs --executor sim"));
  EXPECT_THAT(refusal({"compare", graph, "--jitter", "5%"}), HasSubstr("needs --executor sim"));
  EXPECT_THAT(run({"place", graph, "-d", devices, "--executor", "cpu"}).err, HasSubstr("use sim or placeto"));
}

// A run learns from it: evaluate gives the best step time of the record for its placement.
TEST(Results, RunLearnsFromPlacetosSimulator) {
  const TemporaryFolder folder;
  const auto order = [&](const char* name, const std::vector<std::string>& more) {
    std::vector<std::string> command = testing::small_run(
        folder.at(name), {"--set", "input.graph=" + kNmt, "--set", "input.devices=" + kDevices, "--set",
                          "policy.method=placeto", "--set", "executor.kind=placeto"});
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const ordered_json summary = json_of(order("run", {"--set", "run.starts=[\"scratch\"]", "--episodes", "12",
                                                     "--budget", "60s", "--quiet", "--json"}));
  EXPECT_EQ(summary["best_label"], "simulated");
  EXPECT_EQ(summary["lower_bound_s"], 0);
  EXPECT_TRUE(summary["baseline_step_time_s"]["single-gpu"].is_number())
      << "it does not fit where there is memory";
  const ordered_json measured = json_of(
      {"evaluate", kNmt, folder.at("run") + "/best.placement.json", "-d", kDevices, "--executor", "placeto"});
  EXPECT_EQ(measured["step_time_s"], summary["best_step_time_s"]);
  // Its policy is measured by the model that `place` names, whatever it was trained with.
  const std::string unseen = shipped("tests/fixtures/graphs/cifar10_cnn-bs4.json.gz");
  std::set<double> step_times;
  for (const std::string model : {"sim", "placeto"}) {
    const std::string placement = folder.at(model + ".json");
    const ordered_json placed = json_of({"place", unseen, "-d", kDevices, "--policy", folder.at("run"),
                                         "--executor", model, "-o", placement});
    const ordered_json again = json_of({"evaluate", unseen, placement, "-d", kDevices, "--executor", model});
    EXPECT_EQ(placed["measured"]["executor"], model);
    EXPECT_EQ(placed["measured"]["step_time_s"], again["step_time_s"]) << model;
    step_times.insert(placed["measured"]["step_time_s"].get<double>());
  }
  EXPECT_EQ(step_times.size(), 2u);
  const Finished wrong = run(order("other", {"--set", "objective.kind=latency"}));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("executor.kind: = 'placeto' simulates only step times"));
}

TEST(Results, FakeExecutorRefusesLinksThatItDoesNotSimulate) {
  const TemporaryFolder folder;
  const std::string shared = folder.file(
      "shared.toml",
      "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\n[[device]]\nname = \"gpu:1\"\nprofile = \"k40\"\n"
      "[[link]]\nbetween = [\"*\", \"*\"]\nprofile = \"pcie3_x16\"\n"
      "[[shared]]\nname = \"nic\"\ndevices = [\"gpu:0\"]\n");
  const std::string file = folder.at("placement.json");
  (void)json_of({"place", kNmt, "-d", shared, "--method", "round-robin", "-o", file});
  const Finished done = run({"evaluate", kNmt, file, "-d", shared, "--executor", "fake"});
  EXPECT_EQ(done.status, 2) << done.err;
  EXPECT_THAT(done.err, HasSubstr("does not simulate shared links"));
}

TEST(Results, ExecutorProcessMeasuresWithItsLabel) {
  const TemporaryFolder folder;
  const std::string file = folder.at("placement.json"), trace = folder.at("trace.json");
  ASSERT_EQ(run({"place", kGraph, "-d", kDevices, "-m", "expert", "-o", file}).status, 0);
  const std::vector<std::string> fake{"evaluate", kGraph, file, "-d", kDevices, "--executor", "fake"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fake.begin(), fake.end());
    return more;
  };
  const ordered_json measured = json_of(with({"--samples", "7", "--trace", trace}));
  EXPECT_THAT(keys(measured),
              ElementsAre("step_time_s", "valid", "peak_memory_bytes", "busy_s", "bytes_moved", "executor",
                          "label", "samples_s", "spread", "objective", "objective_value", "synthetic_types"));
  EXPECT_EQ(measured["executor"], "fake");
  EXPECT_EQ(measured["label"], "simulated") << "a fake measures nothing";
  EXPECT_EQ(measured["samples_s"].size(), 7u);
  EXPECT_EQ(measured["spread"]["median_s"], measured["step_time_s"]);
  EXPECT_EQ(measured["spread"]["mad_s"], 0);
  EXPECT_EQ(measured["spread"]["noisy"], false);
  EXPECT_GT(std::filesystem::file_size(trace), 1'000u);
  // An infeasible placement has status 3, a failed one 4; both print the reason in one line.
  const Finished full = run(with({"--chaos", "oom-every=1"}));
  EXPECT_EQ(full.status, 3);
  EXPECT_THAT(full.err, HasSubstr(": does not fit: oom: op '"));
  const ordered_json crashed = json_of(with({"--chaos", "crash-every=1"}), 4);
  EXPECT_TRUE(crashed["step_time_s"].is_null());
  EXPECT_THAT(crashed["reason"].get<std::string>(), HasSubstr("crashed: signal 11"));
  EXPECT_THAT(run(with({"--chaos", "poison-every=1"})).err,
              HasSubstr("did not run: poisoned: measurement 2"));
  EXPECT_THAT(run(with({"--chaos", "hang-every=1", "--deadline", "300ms"})).err,
              HasSubstr("did not run: timeout: no progress for "));
  EXPECT_EQ(run(with({"--chaos", "crash-every=1,oom-every=2"})).status, 4);
  EXPECT_EQ(run(with({"--verify"})).status, 2) << "a fake computes nothing";
}

TEST(Results, TraceContainsTheStepWithoutOverlaps) {
  const TemporaryFolder folder;
  const std::string placement = folder.at("placement.json"), trace = folder.at("trace.json");
  ASSERT_EQ(run({"place", kGraph, "-d", kDevices, "-m", "round-robin", "-o", placement}).status, 0);
  const double step_us =
      1e6 *
      json_of({"evaluate", kGraph, placement, "-d", kDevices, "--trace", trace})["step_time_s"].get<double>();
  std::ifstream in{trace};
  const ordered_json document = ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  for (const auto& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    tracks[{event["pid"], event["tid"]}].emplace_back(event["ts"], event["dur"]);
  }
  EXPECT_GE(tracks.size(), 4u);  // Two GPUs, each with ops and outgoing copies.
  double end_us = 0;
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      EXPECT_GE(slices[i].first, i == 0 ? 0 : slices[i - 1].first + slices[i - 1].second - 1e-3);
      end_us = std::max(end_us, slices[i].first + slices[i].second);
    }
  }
  EXPECT_NEAR(end_us, step_us, 1e-2);
}

TEST(Results, CompareTakesMethodsThatLearnAndAuto) {
  const ordered_json table =
      json_of({"compare", kGraph, "-d", kDevices, "-m", "expert,placeto,auto", "--budget", "2s"});
  ASSERT_EQ(table["methods"].size(), 3u);
  const ordered_json &expert = table["methods"][0], &learned = table["methods"][1];
  EXPECT_EQ(learned["method"], "placeto");
  EXPECT_TRUE(learned["valid"].get<bool>());
  EXPECT_GT(learned["evaluations"].get<int>(), 10);
  EXPECT_LE(learned["step_time_s"].get<double>(), expert["step_time_s"].get<double>());
  EXPECT_EQ(table["methods"][2]["method"], "auto");
}

TEST(Results, AutoIsTheBestOfAllMethods) {
  const ordered_json placed = json_of({"place", kNmt, "-d", kDevices, "--budget", "4s"});
  const ordered_json table = json_of({"compare", kNmt, "-d", kDevices});
  for (const auto& row : table["methods"]) {
    if (!row["valid"].get<bool>()) continue;
    EXPECT_LE(placed["measured"]["step_time_s"].get<double>(), row["step_time_s"].get<double>());
  }
}

// Without the bound both commands would search for an hour, and this test would time out.
TEST(Results, PlaceEndsOnceItsResultIsProvenOptimal) {
  const TemporaryFolder folder;
  const std::string one = folder.file("one.toml", "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\n");
  const ordered_json placed = json_of({"place", kGraph, "-d", one, "--budget", "1h"});
  EXPECT_TRUE(placed["optimal"]);
  EXPECT_NEAR(placed["measured"]["step_time_s"].get<double>(), placed["lower_bound_s"].get<double>(), 1e-12);
  EXPECT_THAT(run({"place", kGraph, "-d", one, "--budget", "1h"}).out, HasSubstr("no placement is better"));
}

TEST(Results, InfeasiblePlacementHasAReasonAndStatusThree) {
  const TemporaryFolder folder;
  const std::string roomy = folder.file("roomy.toml",
                                        "[[device]]\nname = \"cpu:0\"\nprofile = "
                                        "\"haswell18\"\n[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\n"
                                        "[[device]]\nname = \"gpu:1\"\nprofile = \"k40\"\n[[link]]\nbetween "
                                        "= [\"*\", \"*\"]\nprofile = \"pcie3_x16\"\n");
  const std::string file = folder.at("placement.json");
  ASSERT_EQ(run({"place", kNmt, "-d", roomy, "-m", "single-gpu", "-o", file}).status, 0);
  const ordered_json measured = json_of({"evaluate", kNmt, file, "-d", kDevices}, 3);
  EXPECT_EQ(measured["valid"], false);
  EXPECT_TRUE(measured["step_time_s"].is_null());
  EXPECT_EQ(measured["reason"], "gpu:0 needs 3.04 GiB and has 2.50 GiB");
  const Finished done = run({"evaluate", kNmt, file, "-d", kDevices});
  EXPECT_THAT(done.err, HasSubstr("does not fit: gpu:0 needs 3.04 GiB and has 2.50 GiB"));
  EXPECT_EQ(run({"place", kNmt, "-d", kDevices, "-m", "single-gpu", "-o", folder.at("none.json")}).status, 3);
  EXPECT_FALSE(std::filesystem::exists(folder.at("none.json")));
  EXPECT_EQ(run({"compare", kNmt, "-d", kDevices, "-m", "single-gpu"}).status, 3);
}

TEST(Results, ReserveIsKeptFree) {
  const ordered_json all = json_of({"compare", kNmt, "-d", kDevices, "-m", "expert"});
  EXPECT_EQ(all["methods"][0]["valid"], true);
  const ordered_json less = json_of({"compare", kNmt, "-d", kDevices, "-m", "expert", "--reserve", "20%"}, 3);
  EXPECT_EQ(less["methods"][0]["valid"], false);
}

TEST(Results, BoundNamesItsKind) {
  const ordered_json bound = json_of({"bound", kNmt, "-d", kDevices});
  EXPECT_NEAR(bound["lower_bound_s"].get<double>(), 0.3251, 0.001);
  EXPECT_EQ(bound["bound"], "work between head and tail");
  EXPECT_EQ(json_of({"bound", kGraph, "-d", kDevices})["bound"], "critical path with transfers");
}

TEST(Results, InspectMatchesTheGraphFile) {
  const ordered_json plain = json_of({"inspect", kNmt});
  EXPECT_EQ(plain["ops"], 13581);
  EXPECT_EQ(plain["edges"], 21951);
  EXPECT_EQ(plain["op_types"].size(), 40u);
  EXPECT_EQ(plain["flops"], 1122458870567);
  EXPECT_EQ(plain["graph_sha256"].get<std::string>().size(), 64u);
  EXPECT_FALSE(plain.contains("critical_path"));
  const ordered_json placed = json_of({"inspect", kNmt, "-d", kDevices});
  EXPECT_NEAR(placed["critical_path"]["length_s"].get<double>(), 0.1524, 0.0005);
  EXPECT_GT(placed["critical_path"]["ops"].size(), 1000u);
  EXPECT_NEAR(placed["devices"][0]["all_ops_s"].get<double>(), 2.7628, 0.001);
}

TEST(Results, ImportKeepsTheGraphInEveryFormat) {
  const TemporaryFolder folder;
  const std::string before = json_of({"inspect", kGraph})["graph_sha256"];
  for (const char* name : {"g.json", "g.json.gz", "g.json.zst", "g.epg", "g.msgpack"}) {
    const std::string file = folder.at(name);
    EXPECT_EQ(json_of({"import", kGraph, "-o", file})["graph_sha256"], before) << name;
    EXPECT_EQ(json_of({"inspect", file})["graph_sha256"], before) << name;
  }
}

TEST(Results, SeedDecidesEverythingButTheTimeTaken) {
  const auto table = [](const char* seed) {
    ordered_json json = json_of({"compare", kGraph, "-d", kDevices, "--seed", seed});
    for (auto& row : json["methods"]) row.erase("wall_s");
    return json;
  };
  EXPECT_EQ(table("7"), table("7"));
  EXPECT_NE(table("7")["methods"][2], table("8")["methods"][2]) << "the method random";
}

TEST(Results, PlacementWorseThanOneDeviceIsReported) {
  // The small network does not gain from a second GPU.
  const Finished slow = run({"place", kGraph, "-d", kDevices, "--method", "round-robin"});
  EXPECT_EQ(slow.status, 0);
  EXPECT_THAT(
      slow.err,
      HasSubstr("warning: this placement is slower than running everything on gpu:0, which takes 16."));
  EXPECT_EQ(
      json_of({"place", kGraph, "-d", kDevices, "--method", "round-robin"})["slower_than_single_device"],
      true);
  EXPECT_THAT(run({"compare", kGraph, "-d", kDevices, "-m", "round-robin,random"}).err,
              HasSubstr("warning: the best of these methods is slower than"));
  EXPECT_THAT(run({"compare", kGraph, "-d", kDevices}).err, Not(HasSubstr("warning")));
}

TEST(Results, DoctorAndVersionAreOneObject) {
  const ordered_json doctor = json_of({"doctor"});
  EXPECT_GT(doctor["findings"].size(), 5u);
  for (const auto& finding : doctor["findings"])
    EXPECT_EQ(finding["ok"].get<bool>(), finding["cure"].get<std::string>().empty());
  std::map<std::string, std::string> value;
  for (const auto& finding : doctor["findings"]) value[finding["what"]] = finding["value"];
  for (const char* what :
       {"ZeroMQ",   "SQLite",     "libsodium", "Zstandard",  "zlib",      "xxHash",    "RE2",
        "Protobuf", "scotch",     "metis",     "clp",        "onednn",    "cuda",      "NVIDIA driver",
        "GPUs",     "processors", "memory",    "open files", "processes", "disk here", "other machines"})
    EXPECT_FALSE(value[what].empty()) << what;
  EXPECT_THAT(value["ZeroMQ"], HasSubstr("CURVE"));
  EXPECT_THAT(value["Zstandard"], ::testing::StartsWith("libzstd.so.1."));
  const ordered_json version = json_of({"version"});
  EXPECT_EQ(version["version"], doctor["version"]);
  for (const char* part : {"scotch", "metis", "clp", "onednn", "cuda"}) {
    const auto& parts = version["parts"];
    EXPECT_EQ(value[part] == "not built in", std::find(parts.begin(), parts.end(), part) == parts.end())
        << part;
  }
}

}  // namespace
}  // namespace emplace
