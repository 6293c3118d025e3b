// Goal: the CPU executor as a user sees it: evaluate, verify, trace, a full device, calibrate and the use of
// its file. Method: the built programs as processes, on a small real training step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using testing::Finished;
using ::testing::HasSubstr;
using testing::run;
using testing::shipped;
using testing::TemporaryFolder;

const std::string kCpuGraph = shipped("configs/graphs/cifar10_cnn-bs32.json.gz");
const std::string kCpuDevices = shipped("configs/devices/cpu-2core.toml");

class CpuExecutor : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto helper = std::filesystem::path{EMPLACE_PROGRAM}.parent_path() / "emplace-exec-cpu";
    if (!std::filesystem::exists(helper)) GTEST_SKIP() << "emplace-exec-cpu was not built: no oneDNN here";
    const Finished placed =
        run({"place", kCpuGraph, "-d", kCpuDevices, "--method", "round-robin", "-o", placement_});
    ASSERT_EQ(placed.status, 0) << placed.err;
  }
  ordered_json json_of(std::vector<std::string> arguments, int status = 0) const {
    arguments.push_back("--json");
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, status) << done.err;
    return ordered_json::parse(done.out, nullptr, /*allow_exceptions=*/false);
  }
  std::string at(const char* name) const { return (folder_.path() / name).string(); }
  std::vector<std::string> evaluate(const std::string& devices, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"evaluate", kCpuGraph,    placement_, "-d",
                                       devices,    "--executor", "cpu",      "--warmups",
                                       "1",        "--samples",  "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const TemporaryFolder folder_;
  const std::string placement_ = (folder_.path() / "p.json").string();
};

TEST_F(CpuExecutor, EvaluateMeasuresVerifiesAndTraces) {
  const ordered_json json = json_of(evaluate(kCpuDevices, {"--verify", "--trace", at("t.json")}));
  EXPECT_EQ(json["executor"], "cpu");
  EXPECT_EQ(json["label"], "measured");
  EXPECT_EQ(json["valid"], true);
  EXPECT_GE(json["samples_s"].size(), 3u);
  EXPECT_GT(json["step_time_s"].get<double>(), 0);
  EXPECT_EQ(json["synthetic_share"], 0.0);
  EXPECT_EQ(json["verified"], true) << json;
  EXPECT_GT(json["compared"].get<int>(), 50);
  EXPECT_EQ(json["skipped"], 0);
  EXPECT_GT(json["bytes_moved"].get<std::int64_t>(), 0);
  std::ifstream trace{at("t.json")};
  const ordered_json events = ordered_json::parse(trace, nullptr, false);
  EXPECT_GT(events["traceEvents"].size(), 50u);
}

TEST_F(CpuExecutor, CoreInPlaceOfAGpuIsNamedInTheLabel) {
  const std::string mixed = at("mixed.toml");
  std::ofstream{mixed} << "[[device]]\nname = \"cpu:0\"\nprofile = \"haswell18\"\n"
                          "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\n"
                          "[[link]]\nbetween = [\"*\", \"*\"]\nbandwidth = \"10GB/s\"\nlatency = \"1us\"\n";
  ASSERT_EQ(run({"place", kCpuGraph, "-d", mixed, "-m", "single-gpu", "-o", placement_}).status, 0);
  EXPECT_EQ(json_of(evaluate(mixed))["stand_ins"], ordered_json::parse(R"(["gpu:0 on a CPU core"])"));
  const Finished shown = run(evaluate(mixed));
  EXPECT_NE(shown.out.find("label      measured, gpu:0 on a CPU core"), std::string::npos) << shown.out;
}

TEST_F(CpuExecutor, FullDeviceIsOneLineAndStatusThree) {
  std::ifstream in{kCpuDevices};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  for (std::size_t at = 0; (at = text.find("4GiB", at)) != std::string::npos;) text.replace(at, 4, "8MiB");
  std::ofstream{at("tight.toml")} << text;
  const Finished done = run(evaluate(at("tight.toml")));
  EXPECT_EQ(done.status, 3) << done.err;
  EXPECT_THAT(done.err, HasSubstr("oom: "));
  EXPECT_THAT(done.err, HasSubstr("requested"));
  EXPECT_THAT(done.err, HasSubstr("free"));
}

TEST_F(CpuExecutor, CalibrateWritesAMachineThatPredictsIt) {
  const ordered_json json = json_of({"calibrate", kCpuGraph, "--count", "2", "-o", at("here.toml"),
                                     "--placements", "8", "--rounds", "2", "--samples", "2"});
  ASSERT_EQ(json["graphs"].size(), 1u) << json;
  const ordered_json& graph = json["graphs"][0];
  EXPECT_EQ(graph["placements"], 8);
  EXPECT_EQ(graph["held_out"], 4);
  EXPECT_EQ(graph["points"].size(), 8u);
  EXPECT_TRUE(graph["mape"].is_number());
  EXPECT_LT(graph["mape"].get<double>(), 1) << "off by a factor; a busy machine does not explain that";
  EXPECT_THAT(graph["synthetic_types"], ::testing::IsEmpty());
  std::ifstream costs{at("here.costs.json")};
  const ordered_json file = ordered_json::parse(costs, nullptr, false);
  EXPECT_EQ(file["format"], "emplace.costs/1");
  EXPECT_EQ(file["costs"].size(), 2 * json["signatures"].get<std::size_t>());
  // The simulator on that machine, and the machine itself: the same order of magnitude, whatever else runs
  // here.
  const ordered_json model = json_of({"evaluate", kCpuGraph, placement_, "-d", at("here.toml")});
  EXPECT_EQ(model["costs"]["sources"]["calibrated"], 1.0);
  const double simulated = model["step_time_s"].get<double>();
  const double measured = json_of(evaluate(at("here.toml")))["step_time_s"].get<double>();
  EXPECT_GT(simulated, measured / 10);
  EXPECT_LT(simulated, measured * 10);
}

TEST_F(CpuExecutor, CalibrateRefusesUnsupportedOptions) {
  const auto refused = [&](std::vector<std::string> arguments, const char* why) {
    arguments.insert(arguments.begin(), "calibrate");
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2) << done.err;
    EXPECT_THAT(done.err, HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(at("no.toml")));
  };
  refused({kCpuGraph, "--executor", "sim", "-o", at("no.toml")}, "use cpu, cuda or torch");
  refused({kCpuGraph, "-o", at("no.toml"), "--samples", "0"}, "--samples");
  refused({"missing.json", "-o", at("no.toml")}, "missing.json");
  refused({kCpuGraph, "-o", at("no.toml"), "--count", "300"}, "--count");
}

}  // namespace
}  // namespace emplace
