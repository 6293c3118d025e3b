// Goal: nodes come up as a batch job, end with the run, and come back when the job is queued again. Method: a
// Slurm of the test's own (slurm_world.sh), the real program.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/chaos/fault_proxy.h"
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
  Up::Options options(const std::string& more = "") const {
    return {.cluster =
                "[head]\nendpoint = \"tcp://127.0.0.1:" + std::to_string(free_port()) +
                "\"\ninsecure = true\n[[node]]\nname = \"batch\"\nstart = \"slurm\"\nroles = [\"executor\"]\n"
                "processes = 2\nprogram = \"" +
                EMPLACE_PROGRAM + "\"\ncache = \"" + folder_.at("cache") + "\"\n" + more,
            .settings = {"executor.count=4"},
            .where = {.environment = {"SLURM_CONF=" + world_.folder() + "/slurm.conf"}}};
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

TEST_F(Slurm, AJobRunsTheNodesAndEndsWithTheRun) {
  Up up{folder_, "run", options()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(all_measure, Seconds{60})) << up.ps().dump(1) << up.launcher().err();
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "lost"), 0u) << summary.dump(1);
  EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
  const Output queue = slurm("squeue -h");
  EXPECT_EQ(queue.text, "");
  const Output jobs = slurm("scontrol show job");
  EXPECT_NE(jobs.text.find("JobState=COMPLETED"), std::string::npos) << jobs.text;
}

TEST_F(Slurm, AJobThatIsQueuedAgainTakesPartAgain) {
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
  EXPECT_EQ(slurm("squeue -h").text, "");
}

TEST_F(Slurm, AJobThatIsRefusedIsSaidInOneLine) {
  Up up{folder_, "run", options("options = [\"--partition=no-such-partition\"]\n")};
  const Finished ended = up.finish();
  EXPECT_EQ(ended.status, 2) << ended.err;
  const std::string line = error_line(ended);
  EXPECT_NE(line.find("node 'batch' on slurm"), std::string::npos) << line;
  EXPECT_NE(line.find("partition"), std::string::npos) << line;
}

TEST_F(Slurm, AKilledLauncherLeavesNoJobBehind) {
  Up up{folder_, "run", options()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(all_measure, Seconds{60})) << up.launcher().err();
  up.launcher().send(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return slurm("squeue -h").text.empty(); }, Seconds{30}));
}

}  // namespace
}  // namespace emplace::testing
