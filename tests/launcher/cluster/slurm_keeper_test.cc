// Goal: the keeper of a job array carries out each order of the launcher once, whatever Slurm's controller
// does. Method: the script of an elastic node runs with stand-ins for Slurm's programs, which record their
// calls and answer from files; tests/clusters/slurm_test.cc uses the real ones.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

class SlurmKeeper : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.name = node_.node = "batch";
    node_.program = "emplace";
    node_.max_processes = 4;
    node_.insecure = true;
    stand_in("sbatch", "echo 7");
    // The tasks, or an error of the controller.
    stand_in("squeue", "case \"$*\" in *FAILED*) cat " + at("failed") + " 2>/dev/null ;; *) cat " +
                           at("tasks") + "; exit $(cat " + at("answer") + ") ;; esac");
    stand_in("scontrol", "echo \"scontrol $*\" >> " + at("calls") + "; [ ! -e " + at("refuse") + " ]");
    stand_in("scancel", "echo \"scancel $*\" >> " + at("calls"));
    stand_in("sleep", ":");
    set("answer", "0");
    set("tasks", "RUNNING 0\nPENDING 1\nPENDING 2\nPENDING 3\n");
    set("calls", "");
  }
  void TearDown() override {
    if (input_ >= 0) ::close(input_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  void stand_in(const std::string& name, const std::string& body) const {
    std::ofstream{at(name)} << "#!/bin/bash\n" << body << "\n";
    std::filesystem::permissions(at(name), std::filesystem::perms::owner_all);
  }
  void set(const std::string& name, const std::string& text) const {
    std::ofstream{at(name + ".new")} << text;
    std::filesystem::rename(at(name + ".new"), at(name));
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream{at(name)}.rdbuf();
    return text.str();
  }
  /// Starts the keeper; its standard output and error go to files.
  void start() {
    const auto program = slurm_program({node_}, "tcp://head:1", "run", at("batch.sbatch"));
    ASSERT_TRUE(program.ok()) << program.error().context;
    int in[2];
    ASSERT_EQ(::pipe2(in, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::setenv("PATH", (folder_.path().string() + ":" + ::getenv("PATH")).c_str(), 1);
      (void)!std::freopen(at("out").c_str(), "w", stdout);
      (void)!std::freopen(at("err").c_str(), "w", stderr);
      std::vector<char*> words{const_cast<char*>(program->path.c_str())};
      for (const std::string& word : program->arguments) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(in[0]);
    input_ = in[1];
  }
  void order(const std::string& line) const {
    ASSERT_EQ(::write(input_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  /// Waits until a file holds the text, up to a deadline.
  bool wait_for(const std::string& name, const std::string& text) const {
    const SystemClock clock;
    for (const Nanos end = clock.now() + std::chrono::seconds{30}; clock.now() < end;) {
      if (text_of(name).find(text) != std::string::npos) return true;
      ::poll(nullptr, 0, 5);
    }
    return false;
  }
  /// A line that is no order makes the keeper poll at once, not after a second.
  void become_ready() const {
    order("\n\n\n\n\n");
    ASSERT_TRUE(wait_for("out", "{\"ready\": \"\"}")) << text_of("err");
  }
  int end() {
    ::close(input_);
    input_ = -1;
    return ended();
  }
  int ended() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const emplace::testing::ScratchFolder folder_{"keeper"};
  NodePlan node_;
  pid_t pid_ = -1;
  int input_ = -1;
};

TEST_F(SlurmKeeper, SetsTheThrottleAndHoldsTheArrayAtZero) {
  start();
  become_ready();
  order("tasks 3\n");
  ASSERT_TRUE(wait_for("calls", "scontrol update JobId=7 ArrayTaskThrottle=3\n"));
  order("tasks 0\n");
  ASSERT_TRUE(wait_for("calls", "scontrol hold 7\n"));
  ASSERT_TRUE(wait_for("calls", "scancel --signal=TERM 7_0\n")) << "a throttle ends no task";
  EXPECT_EQ(text_of("calls").find("ArrayTaskThrottle=0"), std::string::npos) << "0 is no throttle";
  set("tasks", "PENDING 0\nPENDING 1\nPENDING 2\nPENDING 3\n");
  order("tasks 2\n");
  ASSERT_TRUE(wait_for("calls", "scontrol release 7\n"));
  EXPECT_LT(text_of("calls").find("ArrayTaskThrottle=2"), text_of("calls").find("release"))
      << "first the throttle: all four tasks would start";
  EXPECT_EQ(end(), 0);
  EXPECT_TRUE(text_of("calls").ends_with("scancel 7\n")) << text_of("calls");
}

TEST_F(SlurmKeeper, EndsOnlyTheNewestTasksBeyondTheOrder) {
  set("tasks", "RUNNING 10\nRUNNING 9\nPENDING 11\nRUNNING 2\nCOMPLETING 12\n");
  start();
  become_ready();
  order("tasks 3\n");
  ASSERT_TRUE(wait_for("calls", "ArrayTaskThrottle=3\n"));
  order("tasks 1\n");
  ASSERT_TRUE(wait_for("calls", "7_9\n"));
  EXPECT_NE(text_of("calls").find("scancel --signal=TERM 7_10\n"), std::string::npos);
  EXPECT_EQ(text_of("calls").find("7_2\n"), std::string::npos);
  EXPECT_EQ(text_of("calls").find("7_12\n"), std::string::npos);
}

TEST_F(SlurmKeeper, RetriesAControllerThatDoesNotAnswer) {
  start();
  become_ready();
  set("refuse", "");
  order("tasks 2\n");
  ASSERT_TRUE(wait_for("calls", "ArrayTaskThrottle=2\n"));
  set("tasks", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n");
  set("answer", "1");
  order("tasks 3\n");
  set("calls", "");
  std::filesystem::remove(at("refuse"));
  set("tasks", "RUNNING 0\nPENDING 1\nPENDING 2\nPENDING 3\n");
  set("answer", "0");
  order("tasks 4\n");
  ASSERT_TRUE(wait_for("calls", "ArrayTaskThrottle=4\n")) << text_of("err");
  EXPECT_EQ(end(), 0);
}

TEST_F(SlurmKeeper, StartsOneTaskWithoutDemandToTestTheJob) {
  set("tasks", "PENDING 0\nPENDING 1\n");
  start();
  ASSERT_TRUE(wait_for("out", "job"));
  order("tasks 0\n");
  set("tasks", "RUNNING 0\nPENDING 1\n");
  become_ready();
  ASSERT_TRUE(wait_for("calls", "scontrol hold 7\n"));
  ASSERT_TRUE(wait_for("calls", "scancel --signal=TERM 7_0\n"));
}

TEST_F(SlurmKeeper, EndsIfTheFirstTaskFailsOrTheArrayIsGone) {
  set("failed", "0\n");
  set("batch.0.out", "emplace: error: the key is refused\n");
  start();
  EXPECT_EQ(ended(), 1);
  EXPECT_NE(text_of("err").find("the job 7 ended"), std::string::npos) << text_of("err");
  EXPECT_NE(text_of("err").find("last output: emplace: error: the key is refused"), std::string::npos)
      << text_of("err");
  EXPECT_EQ(text_of("out").find("ready"), std::string::npos);

  set("failed", "");
  start();
  become_ready();
  set("failed", "3\n");  // One failure after the first start: the other tasks continue.
  order("tasks 2\n");
  ASSERT_TRUE(wait_for("calls", "ArrayTaskThrottle=2\n"));
  set("tasks", "slurm_load_jobs error: Invalid job id specified\n");
  set("answer", "1");
  order("\n\n\n\n\n");
  EXPECT_EQ(ended(), 1);
}

TEST_F(SlurmKeeper, KeepsAFixedJobUnthrottled) {
  node_.max_processes = 0;
  set("tasks", "RUNNING N/A\n");
  start();
  become_ready();
  order("tasks 0\n");
  set("tasks", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n");
  set("answer", "1");
  order("\n\n\n\n\n");
  set("tasks", "PENDING N/A\n");  // The job is queued again.
  set("answer", "0");
  order("\n\n\n\n\n");
  EXPECT_EQ(end(), 0);
  EXPECT_EQ(text_of("calls"), "scancel --state=PENDING 7\nscancel --signal=TERM 7\nscancel 7\n");
}

TEST_F(SlurmKeeper, EndsWithItsFixedJob) {
  node_.max_processes = 0;
  set("tasks", "RUNNING N/A\n");
  set("batch.out", "error: out of memory\nsrun: error: node0: task 0: Exited with exit code 4\n");
  start();
  become_ready();
  set("tasks", "");
  order("\n\n\n\n\n");
  EXPECT_EQ(ended(), 1);
  EXPECT_NE(text_of("err").find("the job 7 ended: ; last output: error: out of memory"), std::string::npos)
      << text_of("err");
}

TEST_F(SlurmKeeper, IgnoresLinesThatAreNoOrders) {
  start();
  become_ready();
  order("tasks\ntasks -1\ntasks 1; scancel 9\ntasks $(id)\nover\n\ntasks 4\n");
  ASSERT_TRUE(wait_for("calls", "ArrayTaskThrottle=4\n"));
  EXPECT_EQ(text_of("calls"), "scontrol update JobId=7 ArrayTaskThrottle=4\n");
}

}  // namespace
}  // namespace emplace::launcher
