// Goal: a node with start = "ray" is one process of the launcher, which the run starts without an executor,
// restarts, and ends first; if Python or Ray is missing, one line has the cure. Method: the real program with
// a substitute for Python, which records its arguments and starts a real `emplace join`. With Ray itself:
// python/tests/ray.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/chaos/fault_proxy.h"
#include "tests/clusters/up.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

class RayNode : public ::testing::Test {
 protected:
  /// A driver in shell that runs one executor and ends with its standard input.
  void write_python(const std::string& version = "emplace.ray 0.1.0, ray 2.60.0") const {
    const std::string python = folder_.file(
        "python", "#!/bin/bash\n[ \"$3\" != --version ] || { echo '" + version +
                      "'; exit 0; }\necho \"$TOKEN $*\" >> " + folder_.at("words") + "\necho $$ >> " +
                      folder_.at("pids") +
                      "\necho '{\"ready\": \"\"}'\necho '{\"note\": \"the Ray cluster is "
                      "full\"}'\n\"$EMPLACE_PROGRAM\" join \"$3\" --insecure --executors 1 --cache " +
                      folder_.at("cache") + " --die-with-parent <&0\nread -r line\n");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  }
  Up::Options options(const std::string& more = "", const std::string& python = "") const {
    return {.cluster =
                "[head]\nendpoint = \"tcp://127.0.0.1:" + std::to_string(free_port()) +
                "\"\ninsecure = true\n[[node]]\nname = \"far\"\nstart = \"ray\"\nroles = [\"executor\"]\n" +
                more,
            .settings = {"executor.count=4", "executor.kind=fake", "executor.delay=20ms"},
            .where = {.environment = {"EMPLACE_PYTHON=" + (python.empty() ? folder_.at("python") : python)}}};
  }
  std::vector<std::string> lines_of(const char* name) const {
    std::ifstream file{folder_.at(name)};
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  static bool measures(const json& status) {
    return number(status, "executors") == 1 && number(status, "measurements") > 0;
  }

  const TemporaryFolder folder_;
};

TEST_F(RayNode, IsStartedWithTheSettingsOfTheClusterFile) {
  write_python();
  Up up{
      folder_, "run",
      options("max = 8\ncpus = 2\ngpus = 0.5\nmemory = \"1GiB\"\nresources = [\"TPU=4\"]\nidle = \"3s\"\n"
              "ray_address = \"ray://there:10001\"\nenvironment = [\"TOKEN=a secret\"]\ncache = \"/tmp/c\"\n"
              "runtime_env = '{\"pip\": [\"x\"]}'\nexecutors_per_actor = 2\nprogram = \"/opt/emplace\"\n")};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(measures)) << up.launcher().err();
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary, "lost"), 0u) << summary.dump(1);
  EXPECT_NE(up.launcher().err().find("far: the Ray cluster is full\n"), std::string::npos)
      << up.launcher().err();
  const std::vector<std::string> words = lines_of("words");
  ASSERT_EQ(words.size(), 1u);
  EXPECT_TRUE(
      words[0].starts_with("a secret -m emplace.ray " + up.address() + " --for-launcher --watch ipc://"))
      << words[0];
  for (const char* part :
       {" --insecure", " --ray-address ray://there:10001", " --max 8", " --executors-per-actor 2",
        " --num-cpus 2", " --num-gpus 0.5", " --memory 1073741824", " --resources {\"TPU\":4.0}",
        " --runtime-env {\"pip\": [\"x\"]}", " --env TOKEN", " --program /opt/emplace", " --cache /tmp/c",
        " --idle 3"})
    EXPECT_NE(words[0].find(part), std::string::npos) << part << "\n" << words[0];
  EXPECT_EQ(words[0].find("retry"), std::string::npos);
  EXPECT_EQ(words[0].find("a secret", 8), std::string::npos) << "a value is on no command line";
}

TEST_F(RayNode, KilledDriverIsRestartedAndWaitsForRay) {
  write_python();
  Up up{folder_, "run", options()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(measures)) << up.launcher().err();
  ASSERT_EQ(::kill(static_cast<pid_t>(std::stol(lines_of("pids").at(0))), SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] { return lines_of("words").size() == 2; }, Seconds{20}));
  EXPECT_NE(lines_of("words")[1].find(" --retry"), std::string::npos);
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  EXPECT_EQ(number(summary.value("restarts", json::object()), "far"), 1u) << summary.dump(1);
}

TEST_F(RayNode, AnyClusterRunsItsExecutorsThere) {
  write_python();
  Up::Options elsewhere{.cluster =
                            "[head]\nendpoint = \"tcp://127.0.0.1:*\"\ninsecure = true\n"
                            "[[node]]\nname = \"executors\"\nroles = [\"executor\"]\nprocesses = 0\n",
                        .settings = {"executor.count=4", "executor.kind=fake", "executor.delay=20ms",
                                     "node.executors.ray_address=local"},
                        .arguments = {"--on", "ray"},
                        .where = {.environment = {"EMPLACE_PYTHON=" + folder_.at("python")}}};
  Up up{folder_, "run", elsewhere};
  ASSERT_NE(up.address(), "") << up.finish().err;
  ASSERT_TRUE(up.wait_until_ps(measures)) << up.launcher().err();
  EXPECT_EQ(number(up.ps(), "executors"), 1u) << "and none besides";
  const json summary = up.down();
  EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
  ASSERT_EQ(lines_of("words").size(), 1u);
  EXPECT_NE(lines_of("words")[0].find(" --ray-address local"), std::string::npos);
}

TEST_F(RayNode, MissingDependencyIsOneLineWithTheCure) {
  const auto refused = [&](const Up::Options& options, const std::string& why) {
    Up up{folder_, "refused", options};
    const Finished ended = up.finish();
    EXPECT_EQ(ended.status, 2) << ended.err;
    const std::string line = error_line(ended);
    EXPECT_NE(line.find("node 'far' on ray: "), std::string::npos) << line;
    EXPECT_NE(line.find(why), std::string::npos) << line;
    EXPECT_NE(line.find("pip install 'PATH/emplace_placement-….whl[ray]'"), std::string::npos) << line;
    EXPECT_FALSE(std::filesystem::exists(up.directory() + "/run.db"));
  };
  write_python("emplace.ray 0.1.0, ray is not installed");
  refused(options(), "lacks the package ray");
  refused(options("", "/no/such/python"), "cannot be started");
  const auto python_without = [&](const char* module) {
    const std::string python = folder_.file(
        module, std::string{"#!/bin/sh\necho \"$0: No module named "} + module + "\" >&2\nexit 1\n");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    return python;
  };
  refused(options("", python_without("emplace")), "lacks the package emplace");
  refused(options("", python_without("emplace.ray")),
          "has a stranger's package emplace; pip uninstall emplace, then ");
  const Finished engine = run({"up", folder_.file("c.toml", ""), "--on", "spark"});
  EXPECT_EQ(engine.status, 2);
  EXPECT_NE(error_line(engine).find("--on: 'spark' is unknown; use ray"), std::string::npos) << engine.err;
}

}  // namespace
}  // namespace emplace::testing
