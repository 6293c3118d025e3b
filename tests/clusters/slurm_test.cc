// Goal: nodes start as a batch job, end with the run, and return when the job is requeued; a job array has as
// many tasks as the run needs. Method: a private Slurm (slurm_world.sh), the real program.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "tests/chaos/fault_proxy.h"
#include "tests/chaos/history.h"
#include "tests/clusters/up.h"
#include "tests/clusters/world.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

class Slurm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!world_.missing().empty()) GTEST_SKIP() << world_.missing();
  }
  Up::Options options(const std::string& more = "", const std::string& program = EMPLACE_PROGRAM) const {
    return {.cluster =
                "[head]\nendpoint = \"tcp://127.0.0.1:" + std::to_string(free_port()) +
                "\"\ninsecure = true\n[[node]]\nname = \"batch\"\nstart = \"slurm\"\nroles = [\"executor\"]\n"
                "processes = 2\nprogram = \"" +
                program + "\"\ncache = \"" + folder_.at("cache") + "\"\n" + more,
            .settings = {"executor.count=4"},
            .where = {.environment = {"SLURM_CONF=" + world_.folder() + "/slurm.conf"}}};
  }
  /// An elastic node of up to four tasks, and a sampler that the test starts and ends to change the demand.
  Up::Options elastic(const std::string& more = "", const std::string& program = EMPLACE_PROGRAM) const {
    return {.cluster = "[head]\nendpoint = \"tcp://127.0.0.1:" + std::to_string(free_port()) +
                       "\"\ninsecure = true\n"
                       "[[node]]\nname = \"policy\"\nstart = \"join\"\nroles = [\"sampler\"]\n"
                       "[[node]]\nname = \"batch\"\nstart = \"slurm\"\nroles = [\"executor\"]\n"
                       "max_processes = 4\nprogram = \"" +
                       program + "\"\ncache = \"" + folder_.at("cache") + "\"\n" + more,
            .settings = {"policy.method=random", "executor.kind=fake", "executor.delay=100ms",
                         "pipeline.controllers=1", "pipeline.max_outstanding=16",
                         "pipeline.placements_per_lease=1"},
            .where = {.environment = {"SLURM_CONF=" + world_.folder() + "/slurm.conf"}}};
  }
  std::unique_ptr<Process> sampler(Up& up) const {
    return std::make_unique<Process>(std::vector<std::string>{"join", up.address(), "--insecure", "--as",
                                                              "policy", "--cache", folder_.at("sampler")});
  }
  /// Waits until a task has run for 8 s, after which the launcher considers the job healthy.
  bool ran_for_a_while() const {
    return wait_until(
        [&] {
          for (const std::string& elapsed : lines(slurm("squeue -h -r -t RUNNING -o %M").text))
            if (elapsed.size() > 4 || elapsed >= "0:08") return true;
          return false;
        },
        Seconds{60});
  }
  /// Runs a command in the namespace of the servers.
  Output among_servers(const std::string& command) const {
    return slurm("nsenter -t $(cat " + world_.folder() + "/init.pid) -p -m bash -c '" + command + "'");
  }
  /// Waits until no job is left: a cancelled task completes first.
  bool queue_empties() const {
    return wait_until([&] { return slurm("squeue -h").text.empty(); }, Seconds{30});
  }
  std::size_t running() const { return lines(slurm("squeue -h -r -t RUNNING -o %K").text).size(); }
  static std::vector<std::string> lines(const std::string& text) {
    std::istringstream in{text};
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  /// Names of the present nodes whose executors have measured.
  static std::set<std::string> measuring(const json& status) {
    std::set<std::string> names;
    for (const json& node : status.value("nodes", json::array()))
      if (number(node, "executors") > 0 && number(node, "measurements") > 0 &&
          node.value("heartbeat_age_s", 99.0) < 2)
        names.insert(node.value("node", ""));
    return names;
  }
  static void expect_balance(const json& summary) {
    EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
    EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
    const json leases = summary.value("leases", json::object());
    EXPECT_EQ(number(leases, "issued"), number(leases, "counted") + number(leases, "open") +
                                            number(leases, "expired") + number(leases, "refused"))
        << summary.dump(1);
  }
  Output slurm(const std::string& command) const {
    return shell("SLURM_CONF=" + world_.folder() + "/slurm.conf " + command);
  }
  static bool all_measure(const json& status) {
    return number(node_of(status, "batch/0"), "measurements") > 0 &&
           number(node_of(status, "batch/1"), "measurements") > 0;
  }

  const TemporaryFolder folder_;
  const ScriptedWorld world_{"slurm_world.sh", folder_.at("w"), 2};
};

TEST_F(Slurm, JobRunsTheNodesAndEndsWithTheRun) {
  Up up{folder_, "run", options()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(all_measure, Seconds{60})) << up.ps().dump(1) << up.launcher().err();
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "lost"), 0u) << summary.dump(1);
  EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
  EXPECT_TRUE(queue_empties());
  const Output jobs = slurm("scontrol show job");
  EXPECT_NE(jobs.text.find("JobState=COMPLETED"), std::string::npos) << jobs.text;
}

TEST_F(Slurm, RequeuedJobJoinsAgain) {
  Up up{folder_, "run", options()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(all_measure, Seconds{60})) << up.launcher().err();
  const Output requeued =
      slurm("scontrol requeue $(SLURM_CONF=" + world_.folder() + "/slurm.conf squeue -h -o %A)");
  ASSERT_EQ(requeued.status, 0) << requeued.text;
  ASSERT_TRUE(up.wait_until_ps(
      [](const json& status) {
        const json node = node_of(status, "batch/0");
        return number(node, "restarts") > 0 && node.value("heartbeat_age_s", 99.0) < 2 &&
               number(node, "executors") == 2;
      },
      Seconds{60}))
      << up.ps().dump(1);
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
  EXPECT_TRUE(queue_empties());
}

TEST_F(Slurm, RefusedJobIsOneLine) {
  Up up{folder_, "run", options("options = [\"--partition=no-such-partition\"]\n")};
  const Finished ended = up.finish();
  EXPECT_EQ(ended.status, 2) << ended.err;
  const std::string line = error_line(ended);
  EXPECT_NE(line.find("node 'batch' on slurm"), std::string::npos) << line;
  EXPECT_NE(line.find("partition"), std::string::npos) << line;
}

TEST_F(Slurm, JobWithoutTheProgramIsOneLine) {
  Up up{folder_, "run", options("", "/no/such/emplace")};
  const Finished ended = up.finish();
  EXPECT_EQ(ended.status, 2) << ended.err;
  const std::string line = error_line(ended);
  EXPECT_NE(line.find("node 'batch' on slurm: the job"), std::string::npos) << line;
  EXPECT_NE(line.find("ExitCode=127:0"), std::string::npos) << line;
  EXPECT_NE(line.find("/no/such/emplace: No such file"), std::string::npos) << line;
}

TEST_F(Slurm, KilledLauncherLeavesNoJob) {
  Up up{folder_, "run", options()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(all_measure, Seconds{60})) << up.launcher().err();
  up.launcher().send(SIGKILL);
  EXPECT_TRUE(queue_empties());
}

TEST_F(Slurm, ArrayHasAsManyTasksAsTheRunNeeds) {
  Up up{folder_, "run", elastic()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const SystemClock clock;
  Nanos since = clock.now();
  const auto lap_s = [&] { return Seconds{clock.now() - std::exchange(since, clock.now())}.count(); };
  auto policy = sampler(up);
  ASSERT_TRUE(up.wait_until_ps([](const json& status) { return measuring(status).size() == 4; }, Seconds{90}))
      << up.ps().dump(1) << up.launcher().err() << slurm("squeue -r").text;
  EXPECT_EQ(running(), 4u);
  const double first_s = lap_s();

  policy->send(SIGTERM);  // No placement is proposed after this.
  (void)policy->finish();
  ASSERT_TRUE(wait_until([&] { return running() == 0; }, Seconds{90}))
      << up.ps().dump(1) << slurm("squeue -r").text;
  EXPECT_TRUE(up.wait_until_ps([](const json& status) { return number(status, "executors") == 0; }));
  const double gone_s = lap_s();
  EXPECT_EQ(lines(slurm("squeue -h -r -t PENDING -o %K").text).size(), 4u) << "all of them may come back";

  policy = sampler(up);
  ASSERT_TRUE(up.wait_until_ps([](const json& status) { return measuring(status).size() == 4; }, Seconds{90}))
      << up.ps().dump(1) << slurm("squeue -r").text;
  std::printf("four tasks after %.1f s, none %.1f s after the last proposals, four again after %.1f s\n",
              first_s, gone_s, lap_s());
  const json summary = up.down();
  expect_balance(summary);
  EXPECT_EQ(number(summary, "lost"), 0u) << "a task that leaves returns its leases: " << summary.dump(1);
  EXPECT_EQ(policy->finish().status, 0);
  EXPECT_TRUE(queue_empties());
}

TEST_F(Slurm, RequeuedArrayTaskJoinsAgain) {
  Up up{folder_, "run", elastic()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto policy = sampler(up);
  ASSERT_TRUE(up.wait_until_ps([](const json& status) { return measuring(status).size() == 4; }, Seconds{90}))
      << up.ps().dump(1) << slurm("squeue -r").text;
  const std::set<std::string> before = measuring(up.ps());
  const std::string job = lines(slurm("squeue -h -o %F").text).at(0);
  for (const char* task : {"0", "2"}) {
    const Output requeued = slurm("scontrol requeue " + job + "_" + task);
    ASSERT_EQ(requeued.status, 0) << requeued.text;
  }
  ASSERT_TRUE(up.wait_until_ps(
      [&](const json& status) {
        const std::set<std::string> now = measuring(status);
        std::size_t fresh = 0;
        for (const std::string& name : now) fresh += before.contains(name) ? 0 : 1;
        return now.size() == 4 && fresh == 2;
      },
      Seconds{90}))
      << up.ps().dump(1) << slurm("squeue -r").text;
  const json summary = up.down();
  expect_balance(summary);
  const History history = check_history(up.directory(), 1);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_EQ(history.missing_episodes, 0u);
  EXPECT_TRUE(queue_empties());
}

TEST_F(Slurm, CancelledArrayIsSubmittedAgain) {
  Up up{folder_, "run", elastic()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto policy = sampler(up);
  ASSERT_TRUE(up.wait_until_ps([](const json& status) { return measuring(status).size() == 4; }, Seconds{90}))
      << up.ps().dump(1) << slurm("squeue -r").text;
  const std::string job = lines(slurm("squeue -h -o %F").text).at(0);
  ASSERT_TRUE(ran_for_a_while());
  ASSERT_EQ(slurm("scancel " + job).status, 0);
  ASSERT_TRUE(wait_until(
      [&] {
        const std::vector<std::string> jobs = lines(slurm("squeue -h -t RUNNING -o %F").text);
        return !jobs.empty() && jobs.front() != job;
      },
      Seconds{60}))
      << up.launcher().err() << slurm("squeue -r").text;
  ASSERT_TRUE(up.wait_until_ps([](const json& status) { return measuring(status).size() == 4; }, Seconds{90}))
      << up.ps().dump(1) << slurm("squeue -r").text;
  expect_balance(up.down());
  EXPECT_NE(up.launcher().err().find("JobState=CANCELLED"), std::string::npos) << up.launcher().err();
}

TEST_F(Slurm, RestartOfTheControllerEndsNothing) {
  Up fixed{folder_, "fixed", options()}, array{folder_, "array", elastic()};
  ASSERT_NE(fixed.address(), "") << fixed.finish().err;
  ASSERT_NE(array.address(), "") << array.finish().err;
  const auto policy = sampler(array);
  ASSERT_TRUE(fixed.wait_until_ps(all_measure, Seconds{60})) << fixed.launcher().err();
  ASSERT_TRUE(
      array.wait_until_ps([](const json& status) { return measuring(status).size() == 4; }, Seconds{90}))
      << array.ps().dump(1);
  ASSERT_TRUE(ran_for_a_while());
  const std::string jobs = slurm("squeue -h -o %F | sort -u").text;
  const Output stopped = among_servers("kill -TERM $(cat " + world_.folder() + "/slurmctld.pid)");
  ASSERT_EQ(stopped.status, 0) << stopped.text;
  ASSERT_TRUE(wait_until([&] { return slurm("squeue -h").status != 0; }, Seconds{20}));
  for (Up* const up : {&fixed, &array}) {  // Waits until both jobs have been polled twice.
    const std::uint64_t before = number(up->ps(), "measurements");
    ASSERT_TRUE(up->wait_until_ps(
        [&](const json& status) { return number(status, "measurements") > before + 400; }, Seconds{60}))
        << up->launcher().err();
  }
  const Output started = among_servers("slurmctld");
  ASSERT_EQ(started.status, 0) << started.text;
  ASSERT_TRUE(wait_until([&] { return slurm("squeue -h").status == 0; }, Seconds{20}));
  EXPECT_EQ(slurm("squeue -h -o %F | sort -u").text, jobs) << "the same jobs";
  policy->send(SIGTERM);
  expect_balance(fixed.down());
  expect_balance(array.down());
  EXPECT_TRUE(queue_empties()) << slurm("squeue -r").text;
}

TEST_F(Slurm, ArrayWhoseTasksCannotStartIsOneLine) {
  {
    Up up{folder_, "refused", elastic("options = [\"--partition=no-such-partition\"]\n")};
    const Finished ended = up.finish();
    EXPECT_EQ(ended.status, 2) << ended.err;
    const std::string line = error_line(ended);
    EXPECT_NE(line.find("node 'batch' on slurm"), std::string::npos) << line;
    EXPECT_NE(line.find("partition"), std::string::npos) << line;
  }
  Up up{folder_, "missing", elastic("", "/no/such/emplace")};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const Finished ended = up.finish();
  EXPECT_EQ(ended.status, 2) << ended.err;
  const std::string line = error_line(ended);
  EXPECT_NE(line.find("node 'batch' on slurm: the job"), std::string::npos) << line;
  EXPECT_NE(line.find("ExitCode=127:0"), std::string::npos) << line;
  EXPECT_NE(line.find("/no/such/emplace: No such file"), std::string::npos) << line;
  EXPECT_TRUE(queue_empties());
}

TEST_F(Slurm, KilledLauncherLeavesNoArray) {
  Up up{folder_, "run", elastic()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto policy = sampler(up);
  ASSERT_TRUE(up.wait_until_ps([](const json& status) { return !measuring(status).empty(); }, Seconds{60}))
      << up.launcher().err();
  up.launcher().send(SIGKILL);
  EXPECT_TRUE(queue_empties());
}

/// The shipped script of a heterogeneous job, on a run of this test.
class SlurmHet : public Slurm {
 protected:
  /// Submits it; `key`: value of its variable KEY. Returns the job.
  std::string submit(const std::string& episodes, const std::string& key) const {
    const std::string config = folder_.file(
        "config.toml",
        "[run]\nseed = 1\nbudget = \"120s\"\nepisodes = " + episodes +
            "\nstarts = [\"scratch\", \"best-heuristic\"]\n" + "[input]\ngraph = \"" +
            shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json") + "\"\ndevices = \"" + kDevices +
            "\"\n[pipeline]\ncontrollers = 1\nmax_outstanding = 16\n[policy]\nmethod = \"random\"\n" +
            "[executor]\nkind = \"fake\"\ndelay = \"50ms\"\n[compare]\nmethods = [\"single-gpu\"]\n");
    const std::string cluster = folder_.file(
        "cluster.toml",
        "[run]\nconfig = \"config.toml\"\n[head]\nendpoint = \"tcp://127.0.0.1:5555\"\ninsecure = true\n"
        "[[node]]\nname = \"executors\"\nstart = \"join\"\nroles = [\"executor\"]\n");
    const Output submitted = slurm("EMPLACE=" + std::string{EMPLACE_PROGRAM} + " CLUSTER=" + cluster +
                                   " RUN=" + directory() + " KEY=" + key + " CACHE=" + folder_.at("cache") +
                                   " ADDRESS=127.0.0.1 PORT=" + std::to_string(free_port()) +
                                   " sbatch --parsable --output=" + folder_.at("job.out") + " " +
                                   shipped("configs/clusters/slurm-het.sbatch"));
    EXPECT_EQ(submitted.status, 0) << submitted.text;
    return lines(submitted.text).at(0);
  }
  std::string directory() const { return folder_.at("run"); }
  std::string written() const { return slurm("squeue; cat " + folder_.at("job.out")).text; }
  bool all_eight_measure() const {
    return wait_until(
        [&] {
          const Finished asked = run({"ps", directory(), "--json"});
          return asked.status == 0 && measuring(json::parse(asked.out)).size() == 8;
        },
        Seconds{90});
  }
  bool is_over(Seconds deadline) const {
    return wait_until([&] { return slurm("squeue -h").text.empty(); }, deadline);
  }
  /// The state of a job, such as "JobState=COMPLETED".
  std::string state(const std::string& job) const {
    const std::string text = slurm("scontrol show job " + job).text;
    const std::size_t at = text.find("JobState=");
    return at == std::string::npos ? text : text.substr(at, text.find(' ', at) - at);
  }
};

TEST_F(SlurmHet, ContinuesItsRunWhenItIsQueuedAgain) {
  const std::string job = submit("300", "");
  ASSERT_TRUE(all_eight_measure()) << written();
  ASSERT_EQ(slurm("scontrol requeue " + job).status, 0);
  ASSERT_TRUE(wait_until([&] { return slurm("squeue -h -t RUNNING").text.empty(); }, Seconds{20}));
  ASSERT_TRUE(all_eight_measure()) << written();
  ASSERT_TRUE(is_over(Seconds{90})) << written();
  EXPECT_EQ(state(job), "JobState=COMPLETED") << written();
  for (const char* start : {"", "/from-best-heuristic"}) {
    const History history = check_history(directory() + start, 1);
    EXPECT_EQ(history.violations, std::vector<std::string>{});
    EXPECT_EQ(history.missing_episodes, 0u);
    EXPECT_EQ(history.episodes, 300u) << "of both incarnations of the job: " << written();
  }
}

TEST_F(SlurmHet, EndsItsRunGracefullyBeforeItsTimeLimit) {
  const std::string job = submit("1000000", "");
  ASSERT_TRUE(all_eight_measure()) << written();
  ASSERT_EQ(slurm("scancel --batch --signal=TERM " + job).status, 0);  // The effect of --signal=B:TERM@60.
  ASSERT_TRUE(is_over(Seconds{30})) << written();
  EXPECT_NE(slurm("scontrol show job " + job).text.find("ExitCode=143:0"), std::string::npos) << written();
  EXPECT_NE(written().find("continue with: emplace run"), std::string::npos) << written();
  EXPECT_EQ(check_history(directory(), 1).violations, std::vector<std::string>{});
}

TEST_F(SlurmHet, EndsIfNoExecutorCanJoin) {
  const std::string job = submit("1000000", "/no/such.key");
  ASSERT_TRUE(is_over(Seconds{60})) << written();
  EXPECT_EQ(state(job), "JobState=FAILED");
  EXPECT_NE(written().find("/no/such.key"), std::string::npos) << written();
  EXPECT_NE(written().find("no executor is left: exit status 2"), std::string::npos) << written();
}

}  // namespace
}  // namespace emplace::testing
