// Goal: `emplace run` keeps its promises as a program: results in the run directory, a clean end by signals,
// a head that may be killed, refusals in one line. Method: real processes on a small real graph; the run
// database and the JSON summary are checked. Nothing sleeps: tests wait for output or actions of the
// processes.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

std::vector<std::string> scratch_run(const std::string& directory, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--set", "run.starts=[\"scratch\"]"});
  return small_run(directory, more);
}

TEST(Run, LearnsAndLeavesItsResults) {
  const TemporaryFolder folder;
  const Finished done = run(scratch_run(folder.at("run"), {"--episodes", "40", "--json"}));
  ASSERT_EQ(done.status, 0) << done.err;
  const json summary = json::parse(done.out);
  EXPECT_GE(summary["episodes"].get<int>(), 40);
  EXPECT_EQ(summary["measurements"].get<int>(), 4 * summary["episodes"].get<int>());
  EXPECT_EQ(summary["updates"], summary["episodes"]);
  EXPECT_EQ(summary["duplicated"], 0);
  EXPECT_EQ(summary["parameters_sha256"].get<std::string>().size(), 64u);
  EXPECT_GE(summary["best_step_time_s"].get<double>(), summary["lower_bound_s"].get<double>());
  EXPECT_TRUE(summary["baseline_step_time_s"].contains("expert"));
  std::ifstream file{folder.at("run") + "/metrics.prom"};
  std::map<std::string, double> metrics;
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.rfind(' ');
    if (!line.starts_with("#")) metrics[line.substr(0, space)] = std::stod(line.substr(space));
  }
  const auto ended = [&](const std::string& outcome) {
    return metrics["emplace_leases_ended_total{outcome=\"" + outcome + "\"}"];
  };
  EXPECT_EQ(metrics["emplace_measurements_total"], summary["measurements"].get<double>());
  EXPECT_GT(metrics["emplace_leases_issued_total"], 0);
  EXPECT_EQ(metrics["emplace_leases_issued_total"],
            metrics["emplace_leases_open"] + ended("counted") + ended("expired") + ended("refused"));
  for (const char* name : {"run.db", "head.seq", "config.toml", "best.placement.json", "log"})
    EXPECT_TRUE(std::filesystem::exists(folder.at("run") + "/" + name)) << name;
  const Finished again =
      run({"evaluate", shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
           folder.at("run") + "/best.placement.json", "--devices", shipped("configs/devices/quickstart.toml"),
           "--json", "--trace", folder.at("trace.json")});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_DOUBLE_EQ(json::parse(again.out)["step_time_s"].get<double>(),
                   summary["best_step_time_s"].get<double>());
  EXPECT_TRUE(std::filesystem::exists(folder.at("trace.json")));
}

TEST(Run, IsBitIdenticalIfDeterministic) {
  const TemporaryFolder folder;
  std::string hashes[2];
  for (int i = 0; i < 2; ++i) {
    const Finished done =
        run(scratch_run(folder.at("run" + std::to_string(i)),
                        {"--episodes", "30", "--json", "--quiet", "--set", "run.deterministic=true", "--set",
                         i == 0 ? "executor.count=1" : "executor.count=3"}));
    ASSERT_EQ(done.status, 0) << done.err;
    hashes[i] = json::parse(done.out)["parameters_sha256"].get<std::string>();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Run, KilledHeadIsRestartedAndNothingCountsTwice) {
  const TemporaryFolder folder;
  Process process{scratch_run(folder.at("run"), {"--budget", "6s", "--json"})};
  ASSERT_TRUE(process.wait_for_error_text("updates"));
  const pid_t head = head_of(folder.at("run"));
  ASSERT_GT(head, 0);
  ASSERT_EQ(::kill(head, SIGKILL), 0);
  EXPECT_TRUE(process.wait_for_error_text("restarting from run.db"));
  const Finished done = process.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  const json summary = json::parse(done.out);
  EXPECT_EQ(summary["measurements"].get<int>(), 4 * summary["episodes"].get<int>());
  EXPECT_EQ(head_of(folder.at("run")), 0);
}

TEST(Run, KilledHeadsDoNotChangeTheParameters) {
  const TemporaryFolder folder;
  const std::vector<std::string> more{"--episodes",
                                      "1000",
                                      "--budget",
                                      "300s",
                                      "--json",
                                      "--set",
                                      "run.deterministic=true",
                                      "--set",
                                      "record.checkpoint_every=20"};
  const Finished plain = run(scratch_run(folder.at("plain"), more));
  ASSERT_EQ(plain.status, 0) << plain.err;
  Process process{scratch_run(folder.at("killed"), more)};
  ASSERT_TRUE(process.wait_for_error_text("updates"));
  const pid_t first = head_of(folder.at("killed"));
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(process.wait_for_error_text("restarting from run.db"));
  // The second head is killed shortly after its start, at any point.
  const SystemClock clock;
  const Nanos deadline = clock.now() + std::chrono::seconds{20};
  pid_t second = 0;
  while ((second == 0 || second == first) && clock.now() < deadline) second = head_of(folder.at("killed"));
  ASSERT_EQ(::kill(second, SIGKILL), 0);
  const Finished done = process.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  const json killed = json::parse(done.out), undisturbed = json::parse(plain.out);
  EXPECT_EQ(killed["parameters_sha256"], undisturbed["parameters_sha256"]);
  EXPECT_EQ(killed["episodes"], 1000);
  EXPECT_EQ(killed["updates"], undisturbed["updates"]);
}

TEST(Run, ContinuesUnderNohupWhenTheTerminalIsClosed) {
  const TemporaryFolder folder;
  Process process{scratch_run(folder.at("run"), {"--episodes", "300", "--json"}),
                  {.prefix = {"sh", "-c", "trap '' HUP; exec \"$@\"", "sh"}}};
  ASSERT_TRUE(process.wait_for_error_text("updates"));
  const pid_t head = head_of(folder.at("run"));
  ASSERT_GT(head, 0);
  process.send(SIGHUP);
  ASSERT_EQ(::kill(head, SIGHUP), 0);
  const Finished done = process.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_GE(json::parse(done.out)["episodes"].get<int>(), 300);
  EXPECT_EQ(done.err.find("was ended by"), std::string::npos) << "the head received no signal";
}

TEST(Run, HeadEndedFromOutsideIsRestarted) {
  const TemporaryFolder folder;
  Process process{scratch_run(folder.at("run"), {"--budget", "600s", "--json"})};
  ASSERT_TRUE(process.wait_for_error_text("updates"));
  const pid_t head = head_of(folder.at("run"));
  ASSERT_GT(head, 0);
  ASSERT_EQ(::kill(head, SIGTERM), 0);
  ASSERT_TRUE(process.wait_for_error_text("head was ended by an exit that the run did not request"));
  ASSERT_TRUE(process.wait_for_error_text("head restarted 1x"));
  process.send(SIGTERM);
  const Finished done = process.finish();
  EXPECT_EQ(done.status, 128 + SIGTERM) << done.err;
  EXPECT_EQ(json::parse(done.out)["restarts"]["head"], 1);
}

TEST(Run, KilledLauncherLeavesNoProcessOrSocket) {
  const TemporaryFolder folder;
  Process process{scratch_run(folder.at("run"), {"--budget", "600s", "--json"})};
  ASSERT_TRUE(process.wait_for_error_text("updates"));
  process.send(SIGKILL);
  EXPECT_TRUE(process.finish().killed);
  const SystemClock clock;
  const Nanos deadline = clock.now() + std::chrono::seconds{20};
  while (head_of(folder.at("run")) != 0 && clock.now() < deadline) ::poll(nullptr, 0, 4);
  EXPECT_EQ(head_of(folder.at("run")), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.at("run") + "/head.ipc"));
}

TEST(Run, DirectoryNameNeedNotBeUtf8) {
  const TemporaryFolder folder;
  const Finished done = run(scratch_run(folder.at("bad\xff"), {"--episodes", "5", "--json"}));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_GE(json::parse(done.out)["episodes"].get<int>(), 5);
  EXPECT_TRUE(std::filesystem::exists(folder.at("bad\xff") + "/report.html"));
}

TEST(Run, SignalsEndItCleanlyAndKeepResults) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    Process process{scratch_run(folder.at("run"), {"--budget", "600s", "--json"})};
    ASSERT_TRUE(process.wait_for_error_text("updates"));
    EXPECT_TRUE(std::filesystem::exists(folder.at("run") + "/head.ipc"));
    // A terminal signals all of its processes; only the launcher acts on it.
    if (signal != SIGTERM) ::kill(head_of(folder.at("run")), signal);
    process.send(signal);
    const Finished done = process.finish();
    EXPECT_EQ(done.status, 128 + signal) << done.err;
    EXPECT_FALSE(done.killed);
    EXPECT_EQ(json::parse(done.out)["restarts"]["head"], 0);
    EXPECT_TRUE(json::parse(done.out).contains("episodes"));
    EXPECT_EQ(head_of(folder.at("run")), 0) << "no process is left";
    EXPECT_FALSE(std::filesystem::exists(folder.at("run") + "/head.ipc"));
    const Finished resumed =
        run({"run", "--resume", "--run-dir", folder.at("run"), "--budget", "1s", "--json", "--quiet"});
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_GE(json::parse(resumed.out)["episodes"].get<int>(), json::parse(done.out)["episodes"].get<int>());
  }
}

TEST(Run, AutoGetsTheTimeOfAStartAndASignalMeanwhileKeepsNothing) {
  const TemporaryFolder folder;
  const std::string with_auto = "compare.methods=[\"expert\", \"auto\"]";
  const Finished done = run(scratch_run(folder.at("run"), {"--set", with_auto, "--budget", "1s", "--json"}));
  ASSERT_EQ(done.status, 0) << done.err;
  const json found = json::parse(done.out)["baseline_step_time_s"];
  EXPECT_LE(found["auto"].get<double>(), found["expert"].get<double>());
  EXPECT_TRUE(std::filesystem::exists(folder.at("run") + "/report.html"));
  // The best placement of all methods is in a file, and a continued run keeps auto's row.
  const json best = json::parse(done.out)["recommended"];
  EXPECT_LE(best["step_time_s"].get<double>(), found["auto"].get<double>());
  EXPECT_EQ(best["placement"], folder.at("run") + "/recommended.placement.json");
  const json placement = json::parse(std::ifstream{best["placement"].get<std::string>()});
  EXPECT_NEAR(placement["measured"]["step_time_s"].get<double>(), best["step_time_s"].get<double>(), 1e-12);
  const Finished again = run({"run", "--resume", "--run-dir", folder.at("run"), "--budget", "1s", "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["baseline_step_time_s"]["auto"], found["auto"]);
  const Finished counted =
      run(scratch_run(folder.at("counted"), {"--set", with_auto, "--episodes", "2", "--json"}));
  EXPECT_FALSE(json::parse(counted.out)["baseline_step_time_s"].contains("auto")) << "no time to be equal to";

  Process process{scratch_run(folder.at("stopped"), {"--set", with_auto, "--budget", "600s"})};
  ASSERT_TRUE(process.wait_for_error_text("and auto for 60.00 s"));
  process.send(SIGINT);
  const Finished stopped = process.finish();
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_FALSE(stopped.killed);
  EXPECT_NE(stopped.err.find("nothing is kept"), std::string::npos) << stopped.err;
  EXPECT_FALSE(std::filesystem::exists(folder.at("stopped")));
  const Finished missing = run({"run", "--resume", "--run-dir", folder.at("stopped")});
  EXPECT_EQ(missing.status, 2) << missing.err;
  EXPECT_NE(missing.err.find("holds no run to continue"), std::string::npos) << missing.err;
}

TEST(Run, InterruptedRunShowsHowToContinueIt) {
  const TemporaryFolder folder;
  Process process{scratch_run(folder.at("run"), {"--budget", "600s"})};
  ASSERT_TRUE(process.wait_for_error_text("updates"));
  process.send(SIGINT);
  const Finished done = process.finish();
  EXPECT_EQ(done.status, 130);
  EXPECT_NE(done.out.find("continue with: emplace run --run-dir " + folder.at("run") + " --resume"),
            std::string::npos)
      << done.out;
}

TEST(Run, RefusesInOneLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& arguments, std::string_view with, int status = 2) {
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, status) << done.err;
    EXPECT_NE(done.err.find(with), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_TRUE(done.err.starts_with("error: ")) << done.err;
  };
  refused(scratch_run(folder.at("a"), {"--set", "policy.grups=3"}), "did you mean 'groups'");
  refused(scratch_run(folder.at("b"), {"--budget", "5"}), "--budget");
  refused(scratch_run("/proc/nowhere/run", {"--quiet"}), "run directory");
  refused({"run", folder.at("missing.toml")}, "cannot be read");
  refused({"run"}, "config");
  refused(scratch_run(folder.at("d"), {"--cluster", folder.at("none.toml")}), "none.toml");
  refused(scratch_run(folder.at("d"),
                      {"--cluster", folder.file("c.toml", "[[node]]\nname = 'x'\nroles = ['x']")}),
          "unknown role 'x'; expected one of: sampler");
  refused({"run", "--resume"}, "--run-dir");
  ASSERT_EQ(run(scratch_run(folder.at("run"), {"--episodes", "2", "--quiet"})).status, 0);
  refused(scratch_run(folder.at("run"), {"--episodes", "2", "--quiet"}), "--resume");
  EXPECT_FALSE(std::filesystem::exists(folder.at("a"))) << "no partial file remains";
}

TEST(Run, OldKeyIsReadAndItsNewNameReported) {
  const TemporaryFolder folder;
  const Finished done =
      run(scratch_run(folder.at("run"), {"--episodes", "2", "--quiet", "--set", "policy.grouper_hidden=7",
                                         "--set", "policy.rounds=3"}));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err,
            "warning: policy.grouper_hidden is now policy.hierarchical.grouper_hidden, policy.rounds is now "
            "policy.placeto.rounds; docs/reference/config.md lists every key\n");
  std::ifstream config{folder.at("run") + "/config.toml"};
  const std::string text{std::istreambuf_iterator<char>{config}, {}};
  EXPECT_NE(text.find("\ngrouper_hidden = 7\n"), std::string::npos) << text;
  EXPECT_GT(text.find("\ngrouper_hidden = 7\n"), text.find("\n[policy.hierarchical]\n"))
      << "in its new place";
  const Finished resumed =
      run({"run", "--resume", "--run-dir", folder.at("run"), "--episodes", "3", "--quiet"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.err, "") << "what was written has the new form";
}

// The same numbers whether the simulator runs in the executor or, like devices, in its own process.
TEST(Run, ExecutorProcessesLearnTheSame) {
  const TemporaryFolder folder;
  const auto parameters = [&](const char* name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments =
        small_run(folder.at(name),
                  {"--set", "executor.kind=fake", "--set", "run.deterministic=true", "--set",
                   "run.starts=[\"scratch\"]", "--episodes", "20", "--budget", "60s", "--json", "--quiet"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    const json summary = json::parse(done.out, nullptr, false);
    EXPECT_EQ(summary["best_label"], "simulated") << "a fake measures nothing";
    EXPECT_EQ(summary["duplicated"], 0);
    return summary["parameters_sha256"].get<std::string>();
  };
  const std::string process = parameters("process", {"--set", "executor.process=true"});
  const std::string dying =
      parameters("dying", {"--set", "executor.chaos=crash-every=7", "--set", "executor.restarts=10000"});
  EXPECT_EQ(process, dying) << "a crash does not change what is learned";
  EXPECT_EQ(process.size(), 64u);
}

TEST(Run, ReportsThatNothingFits) {
  const TemporaryFolder folder;
  const std::string tiny =
      folder.file("tiny.toml", "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\nmemory = \"1MB\"\n");
  const Finished done =
      run(scratch_run(folder.at("run"), {"--set", "input.devices=" + tiny, "--episodes", "5", "--quiet"}));
  EXPECT_EQ(done.status, 3) << done.err;
  EXPECT_NE(done.err.find("MiB over"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("increase the devices' memory"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace emplace::testing
