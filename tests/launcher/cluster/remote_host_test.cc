// Goal: a node on another host gets its own environment, whatever it contains, and only that node sees it: it
// is on no command line, in no file that others can read, and in nothing that other nodes receive. Method: a
// shell here runs what ssh and srun would run, with a stand-in for emplace that records what it receives.
#include "launcher/cluster/hosts/remote_host.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "launcher/cluster/files/manifest.h"
#include "runtime/process/run_command.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

const std::string kSecret = "it's \"hush\" $HOME `id` \\ \n\n two lines\n";

class RemoteHost : public ::testing::Test {
 protected:
  RemoteHost() {
    node_.name = node_.node = "far";
    node_.host = "ada@rack7";
    node_.program = at("emplace");
    node_.environment = {"TOKEN=" + kSecret, "EMPTY=", "PLAIN=x=y"};
    program("emplace", "printf '%s' \"$TOKEN\" > " + at("token") + "; printf '%s' \"$EMPTY|$PLAIN\" > " +
                           at("plain") + "; echo \"$@\" > " + at("words") + "; cat > " + at("input"));
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  void program(const std::string& name, const std::string& body) const {
    std::ofstream{at(name)} << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(at(name), std::filesystem::perms::owner_all);
  }
  std::string text_of(const std::string& name) const {
    const auto bytes = read_file(at(name));
    return bytes ? std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()}
                 : "unreadable: " + bytes.error().context;
  }
  void expect_environment() const {
    EXPECT_EQ(text_of("token"), kSecret);
    EXPECT_EQ(text_of("plain"), "|x=y");
    EXPECT_TRUE(text_of("words").starts_with("join tcp://head:1 --as far")) << text_of("words");
  }

  const testing::ScratchFolder folder_{"remote_host"};
  NodePlan node_;
};

TEST_F(RemoteHost, SshPassesTheEnvironmentOnStandardInput) {
  const Program ssh = ssh_program(node_, "tcp://head:1");
  for (const std::string& word : ssh.arguments) EXPECT_EQ(word.find("hush"), std::string::npos) << word;
  std::ofstream{at("given")} << ssh.input << "for the program";
  const auto ran = process::run_command("sh", {"-c", ssh.arguments.back()}, {.input = at("given")});
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(ran->status, 0) << ran->errors;
  expect_environment();
  // Only the end counts: a reader of blocks may have consumed what precedes it.
  EXPECT_TRUE(std::string{"for the program"}.ends_with(text_of("input"))) << text_of("input");
}

TEST_F(RemoteHost, SshRunsTheProgramDirectlyWithoutAnEnvironment) {
  node_.environment.clear();
  const Program ssh = ssh_program(node_, "tcp://head:1");
  EXPECT_TRUE(ssh.input.empty());
  EXPECT_TRUE(ssh.arguments.back().starts_with("exec " + at("emplace") + " join")) << ssh.arguments.back();
}

TEST_F(RemoteHost, SlurmKeepsTheEnvironmentInAPrivateScript) {
  std::ofstream{at("far.sbatch")} << "of an older release";  // Others can read this file.
  const auto submitted = slurm_program({node_}, "tcp://head:1", "run", at("far.sbatch"));
  ASSERT_TRUE(submitted.ok()) << submitted.error().context;
  for (const std::string& word : submitted->arguments) EXPECT_EQ(word.find("hush"), std::string::npos);
  struct stat info {};
  ASSERT_EQ(::stat(at("far.sbatch").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // Arguments of srun are public on every machine of the job.
  program("srun", "echo \"$@\" > " + at("srun-words") +
                      "; while [ \"$1\" != bash ]; do shift; done; exec \"$@\" < /dev/null");
  program("scontrol", "true");
  const auto ran = process::run_command(
      "sh", {"-c", "PATH=" + folder_.path().string() + ":$PATH exec bash " + at("far.sbatch")});
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(ran->status, 0) << ran->errors;
  expect_environment();
  EXPECT_EQ(text_of("srun-words").find("hush"), std::string::npos);
}

TEST_F(RemoteHost, ManifestContainsNoEnvironment) {
  Cluster cluster;
  cluster.head.environment = {"TOKEN=hush"};
  cluster.nodes.push_back({.name = "far", .roles = {"learner"}, .environment = {"TOKEN=hush"}});
  ASSERT_TRUE(write_file(at("cluster.toml"), to_toml(cluster)).ok());
  std::filesystem::copy_file(EMPLACE_FIXTURES "/graphs/cifar10_cnn-bs128.json", at("gr\xff\n.json"));
  RunConfig config;
  config.input.graph = at("gr\xff\n.json");
  const auto manifest = make_manifest(config, {}, at("cluster.toml"), {"scratch", {}});
  ASSERT_TRUE(manifest.ok()) << manifest.error().context;
  EXPECT_EQ(manifest->facts.cluster.find("hush"), std::string::npos);
  const auto there = parse_cluster(manifest->facts.cluster, "cluster.toml");
  ASSERT_TRUE(there.ok()) << there.error().context;
  EXPECT_EQ(there->nodes.at(0).roles, std::vector<std::string>{"learner"});
  // File names that are no text are escaped.
  EXPECT_EQ(manifest->facts.files.at(0).path, "files/0/gr_xff_x0a.json");
  EXPECT_NE(manifest->facts.config.find("files/0/gr_xff_x0a.json"), std::string::npos);
}

}  // namespace
}  // namespace emplace::launcher
