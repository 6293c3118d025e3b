// Goal: nodes start on other hosts over ssh, take part from there, and end with the run; their errors are
// reported by the launcher. Method: hosts with their own addresses and sshd in namespaces (ssh_world.sh), the
// real program.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/chaos/fault_proxy.h"
#include "tests/clusters/up.h"
#include "tests/clusters/world.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

/// Two hosts, and keys for all.
class Ssh : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!world_.missing().empty()) GTEST_SKIP() << world_.missing();
    std::ifstream in{world_.folder() + "/world.json"};
    facts_ = json::parse(in);
    ASSERT_EQ(run({"keygen", keys_}).status, 0);
    for (const char* role : {"executor", "actor"})
      ASSERT_EQ(run({"keygen", keys_, "--role", role}).status, 0);
    ASSERT_EQ(run({"keygen", keys_, "--role", "operator"}).status, 0);
  }
  std::string head() const {
    return "[head]\nendpoint = \"tcp://" + facts_["head"].get<std::string>() + ":" +
           std::to_string(free_port()) + "\"\nkey = \"" + keys_ + "/head.key\"\nallowed = \"" + keys_ +
           "/allowed.toml\"\n";
  }
  std::string node(const std::string& name, const std::string& host, const std::string& role,
                   const std::string& key, const std::string& more = "") const {
    return "[[node]]\nname = \"" + name + "\"\nstart = \"ssh\"\nhost = \"" + host + "\"\nroles = [\"" + role +
           "\"]\nkey = \"" + keys_ + "/" + key + ".key\"\noptions = [\"-F\", \"" + world_.folder() +
           "/ssh_config\"]\nprogram = \"" + EMPLACE_PROGRAM + "\"\ncache = \"" + folder_.at("cache-" + name) +
           "\"\n" + more;
  }
  Up::Options options(const std::string& cluster, std::vector<std::string> arguments = {}) const {
    return {
        .cluster = cluster, .arguments = std::move(arguments), .access = {"--key", keys_ + "/operator.key"}};
  }

  const TemporaryFolder folder_;
  const ScriptedWorld world_{"ssh_world.sh", folder_.at("world"), 3};
  const std::string keys_ = folder_.at("keys");
  json facts_;
};

TEST_F(Ssh, SamplerLearnerAndExecutorsRunOnThreeHosts) {
  Up::Options up_options = options(head() + node("sampler", "host0", "sampler", "actor") +
                                   node("learner", "host1", "learner", "actor") +
                                   node("executors", "host2", "executor", "executor", "processes = 2\n"));
  up_options.settings = {"executor.count=4", "pipeline.controllers=1"};
  Up up{folder_, "run", up_options};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(
      [](const json& status) { return number(status, "updates") > 5 && number(status, "executors") == 4; },
      Seconds{60}))
      << up.ps().dump(1) << up.launcher().err();
  const json status = up.ps();
  for (const auto& [name, host] : std::map<std::string, std::string>{
           {"sampler", "host0"}, {"learner", "host1"}, {"executors/0", "host2"}, {"executors/1", "host2"}})
    EXPECT_EQ(node_of(status, name).value("host", ""), host) << status.dump(1);
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "lost"), 0u) << summary.dump(1);
  EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
  EXPECT_EQ(number(summary, "episodes") * 4, number(summary, "measurements"));
}

TEST_F(Ssh, LostHostIsNoticedAndItsNodeRestarts) {
  Up::Options up_options = options(head() + node("learner", "host1", "learner", "actor"));
  Up up{folder_, "run", up_options};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto learns_beyond = [](std::uint64_t updates) {
    return [updates](const json& status) { return number(status, "updates") > updates; };
  };
  ASSERT_TRUE(up.wait_until_ps(learns_beyond(5), Seconds{60})) << up.launcher().err();
  // All emplace processes of that host are killed at once; its sshd continues.
  const auto init = facts_["hosts"][1]["pid"].get<int>();
  const Output killed = shell("nsenter -t " + std::to_string(init) + " -p -m pkill -9 -x emplace");
  ASSERT_EQ(killed.status, 0) << killed.text;
  const std::uint64_t before = number(up.ps(), "updates");
  ASSERT_TRUE(up.wait_until_ps(learns_beyond(before + 10), Seconds{60})) << up.launcher().err();
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(summary["restarts"].value("learner", 0), 1) << summary.dump(1);
  EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
}

TEST_F(Ssh, ProgramIsCopiedToAHostThatLacksIt) {
  Up::Options up_options = options(head() + node("executors", "host0", "executor", "executor",
                                                 "environment = [\"A=it's b\", \"TOKEN=hush\\nhush\"]\n"),
                                   {"--push"});
  Up up{folder_, "run", up_options};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(
      up.wait_until_ps([](const json& status) { return number(status, "measurements") > 0; }, Seconds{60}))
      << up.launcher().err();
  const int init = facts_["hosts"][0]["pid"].get<int>();
  const Output words = shell("nsenter -t " + std::to_string(init) + " -p -m pgrep -a -x emplace");
  EXPECT_NE(words.text.find(".cache/emplace/bin/"), std::string::npos) << words.text;
  EXPECT_NE(words.text.find("executors.key"), std::string::npos) << words.text;
  // It has its environment, which no list of processes shows, on either host.
  const Output variables = shell("nsenter -t " + std::to_string(init) +
                                 " -p -m sh -c \"tr '\\\\0' '|' < /proc/\\$(pgrep -x emplace)/environ\"");
  EXPECT_NE(variables.text.find("A=it's b|"), std::string::npos) << variables.text;
  EXPECT_NE(variables.text.find("TOKEN=hush\nhush|"), std::string::npos) << variables.text;
  EXPECT_EQ(shell("pgrep -a -f '[h]ush'").status, 1);
  EXPECT_EQ(shell("nsenter -t " + std::to_string(init) + " -p -m pgrep -a -f '[h]ush'").status, 1);
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
}

TEST_F(Ssh, KilledLauncherLeavesNothingOnTheHosts) {
  Up::Options up_options = options(head() + node("executors", "host0", "executor", "executor"));
  Up up{folder_, "run", up_options};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(
      up.wait_until_ps([](const json& status) { return number(status, "measurements") > 0; }, Seconds{60}));
  up.launcher().send(SIGKILL);
  const int init = facts_["hosts"][0]["pid"].get<int>();
  EXPECT_TRUE(wait_until(
      [&] { return shell("nsenter -t " + std::to_string(init) + " -p -m pgrep -x emplace").status == 1; },
      Seconds{20}));
}

TEST_F(Ssh, RefusalOfAHostIsOneLineThatNamesTheNode) {
  const auto refused = [&](const std::string& cluster, const std::string& with,
                           std::vector<std::string> more = {}) {
    static int number = 0;
    Up up{folder_, "bad" + std::to_string(number++), options(head() + cluster, std::move(more))};
    const Finished ended = up.finish();
    EXPECT_TRUE(ended.status == 2 || ended.status == 4) << ended.status;
    const std::string line = error_line(ended);
    EXPECT_NE(line.find("node 'far'"), std::string::npos) << line;
    EXPECT_NE(line.find(with), std::string::npos) << line;
  };
  refused(node("far", "refused", "executor", "executor"), "Permission denied");
  refused(node("far", "stranger", "executor", "executor"), "Host key verification failed");
  refused(node("far", "refused", "executor", "executor"), "Permission denied", {"--push"});
  std::string absent = node("far", "host0", "executor", "executor");
  absent.replace(absent.find(EMPLACE_PROGRAM), std::string{EMPLACE_PROGRAM}.size(), "/no/such/emplace");
  refused(absent, "/no/such/emplace");
  // A key without the role of its node.
  refused(node("far", "host0", "learner", "executor"),
          "no node called 'far' may come from executor (executor)");
}

}  // namespace
}  // namespace emplace::testing
