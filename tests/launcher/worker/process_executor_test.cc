// Goal: an executor in a process of its own gives the results of one in this process, and whatever happens to
// that process (crash, hang, lost device, stop, silence) ends as a measurement or as one line, and leaves no
// process. Method: the real emplace-exec-fake with its chaos options and deadlines of a fraction of a second;
// the test waits for events of the processes.
#include "launcher/worker/process_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "base/file.h"
#include "executor/plan/fake_executor.h"
#include "launcher/worker/chaos.h"
#include "launcher/worker/executors.h"
#include "launcher/worker/helper_program.h"
#include "placement/machine/machine_text.h"
#include "runtime/process/child_process.h"
#include "tests/support/sample_graphs.h"

namespace emplace::launcher {
namespace {

using emplace::testing::random_graph;
using emplace::testing::random_placement;
using emplace::testing::sample_devices;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kPlenty = std::int64_t{1} << 50;

/// Waits until the condition holds, for at most ten seconds. Returns whether it does.
template <class Condition>
bool wait_until(Condition holds) {
  for (int i = 0; i < 5'000; ++i) {
    if (holds()) return true;
    ::poll(nullptr, 0, 2);
  }
  return false;
}
bool is_gone(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!stat) return true;
  const std::string text{reinterpret_cast<const char*>(stat->data()), stat->size()};
  return text.find(") Z") != std::string::npos;
}

class ProcessExecutorTest : public ::testing::Test {
 protected:
  /// The executor that the wiring makes from a config, with short deadlines.
  std::unique_ptr<ProcessExecutor> make(std::vector<std::string> arguments = {}, int restarts = 1'000,
                                        Nanos deadline = std::chrono::seconds{1}) {
    ProcessExecutorOptions options;
    options.kind = "fake";
    options.command = {helper_path("fake"), std::move(arguments), {"OMP_WAIT_POLICY=passive"}};
    options.real.timing.samples = 3;
    options.supervision.least_deadline = deadline;
    options.supervision.silence = std::chrono::seconds{3};
    options.supervision.grace = milliseconds{100};
    options.supervision.first_delay = milliseconds{1};
    options.supervision.restarts_per_minute = restarts;
    return std::make_unique<ProcessExecutor>(graph_, devices_, std::move(options), clock_);
  }
  Placement placement(std::uint64_t number) const {
    Rng rng{number, Purpose::kTest};
    return random_placement(rng, graph_.num_ops(), devices_.size());
  }
  Measurement measured(ProcessExecutor& executor, std::uint64_t number) const {
    Measurement m;
    const auto done = executor.measure(placement(number), m);
    EXPECT_TRUE(done.ok()) << done.error().context;
    return m;
  }
  static OpGraph some_graph() {
    Rng rng{7, Purpose::kTest};
    return random_graph(rng, 40);
  }

  const SystemClock clock_{};
  const OpGraph graph_ = some_graph();
  const DeviceSet devices_ = sample_devices(2, true, kPlenty, {1e9, 2.5e-6}).with_copies(CopyEngine::kTarget);
};

TEST_F(ProcessExecutorTest, MatchesTheSameExecutorInThisProcess) {
  const auto executor = make();
  FakeExecutor here{graph_, devices_};
  for (std::uint64_t i = 0; i < 50; ++i) {
    Measurement expected, got;
    Schedule wanted, schedule;
    ASSERT_TRUE(here.trace(placement(i), expected, wanted).ok());
    ASSERT_TRUE(executor->trace(placement(i), got, schedule).ok());
    EXPECT_EQ(got, expected);
    ASSERT_EQ(schedule.ops.size(), wanted.ops.size());
    for (std::size_t op = 0; op < wanted.ops.size(); ++op) {
      EXPECT_EQ(schedule.ops[op].op, wanted.ops[op].op);
      EXPECT_EQ(schedule.ops[op].end_s, wanted.ops[op].end_s);
    }
    EXPECT_EQ(schedule.transfers.size(), wanted.transfers.size());
    EXPECT_EQ(schedule.memory.size(), wanted.memory.size());
    expected.samples_s.assign(3, expected.step_time_s);
    EXPECT_EQ(measured(*executor, i), expected);
  }
  const auto profile = executor->profile();
  const auto wanted = here.profile();
  ASSERT_TRUE(profile.ok()) << profile.error().context;
  ASSERT_EQ(profile->ops.size(), wanted->ops.size());
  EXPECT_EQ(profile->ops.front().size(), wanted->ops.front().size());
  EXPECT_EQ(profile->step_time_s, wanted->step_time_s);
  EXPECT_EQ(executor->restarts(), 0);
  EXPECT_EQ(executor->verify(placement(0)).error().code, Errc::kUnsupported) << "an error keeps its kind";
  Measurement out;
  EXPECT_EQ(executor->measure(Placement(3), out).error().code, Errc::kInvalid);
}

TEST_F(ProcessExecutorTest, HasTheCostsOfTheMachine) {
  for (const CostVersion costs : {CostVersion::k1, CostVersion::k2}) {
    const DeviceSet devices = parse_machine("h100 x 2, l40s, epyc9654", {}, costs).value();
    const auto executor = make_process_executor("fake", graph_, devices, {});
    FakeExecutor here{graph_, devices};
    for (std::uint64_t i = 0; i < 10; ++i) {
      Rng rng{i, Purpose::kTest};
      const Placement placement = random_placement(rng, graph_.num_ops(), devices.size());
      Measurement got, expected;
      ASSERT_TRUE(executor->measure(placement, got).ok());
      ASSERT_TRUE(here.measure(placement, expected).ok());
      EXPECT_EQ(got.step_time_s, expected.step_time_s) << "version " << word_of(costs);
    }
  }
}

TEST_F(ProcessExecutorTest, PassesEachNoteOnOnce) {
  std::vector<std::string> lines;
  ProcessExecutorOptions options;
  options.kind = "fake";
  options.command = {helper_path("fake"), {"--note=devices share a GPU", "--crash-every=2"}, {}};
  options.note = [&](const std::string& line) { lines.push_back(line); };
  options.supervision.first_delay = milliseconds{1};
  ProcessExecutor executor{graph_, devices_, std::move(options), clock_};
  for (std::uint64_t i = 0; i < 3; ++i) measured(executor, i);
  EXPECT_EQ(executor.notes(), std::vector<std::string>{"devices share a GPU"});
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "executor 'fake': devices share a GPU"), 1)
      << "also across restarts";
}

TEST_F(ProcessExecutorTest, AnnouncesTheNextPlacement) {
  const auto executor = make({"--refuse-surprises"});
  const auto polled = [&](std::uint64_t number, std::span<const DeviceId> next) {
    Measurement m;
    executor->start(placement(number), next);
    EXPECT_TRUE(wait_until([&] { return executor->poll(m).value(); }));
    return m.failure;
  };
  EXPECT_EQ(polled(0, placement(1)), "");
  EXPECT_EQ(polled(1, placement(2)), "");
  EXPECT_EQ(polled(3, {}), "failed: another placement was announced");
  EXPECT_EQ(polled(4, {}), "") << "nothing was announced";
  EXPECT_EQ(polled(4, Placement(3)), "") << "a wrong announcement is no error";
}

TEST_F(ProcessExecutorTest, RetryAnnouncesNothing) {
  const auto executor = make({"--refuse-surprises", "--crash-every=2"});
  Measurement m;
  executor->start(placement(0), {});
  EXPECT_TRUE(wait_until([&] { return executor->poll(m).value(); }));
  executor->start(placement(1), placement(2));  // Its first try crashes.
  EXPECT_TRUE(wait_until([&] { return executor->poll(m).value(); }));
  EXPECT_EQ(executor->restarts(), 1);
  EXPECT_EQ(m.failure, "");
  executor->start(placement(5), {});
  EXPECT_TRUE(wait_until([&] { return executor->poll(m).value(); }));
  EXPECT_EQ(m.failure, "") << "placement 2 was not announced again";
}

TEST_F(ProcessExecutorTest, SlowPlacementsGetOneSample) {
  ProcessRequest request;
  request.real.timing = {.warmups = 1, .samples = 4, .most_samples = 4, .stop_ratio = 1.3};
  const auto executor = make_process_executor("fake", graph_, devices_, request);
  FakeExecutor here{graph_, devices_};
  double best_s = std::numeric_limits<double>::infinity();
  int stopped = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    Measurement m, expected;
    ASSERT_TRUE(executor->measure(placement(i), m).ok());
    ASSERT_TRUE(here.measure(placement(i), expected).ok());
    const bool slow = expected.step_time_s >= 1.3 * best_s;
    EXPECT_EQ(m.samples_s, std::vector<double>(slow ? 1 : 4, expected.step_time_s)) << "placement " << i;
    best_s = std::min(best_s, expected.step_time_s);
    stopped += slow ? 1 : 0;
  }
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, 39);
}

TEST_F(ProcessExecutorTest, LosesNoResultToCrashesHangsAndFullDevices) {
  const auto executor = make({"--crash-every=7", "--hang-every=31", "--oom-every=5"});
  FakeExecutor here{graph_, devices_};
  // Chaos counts requests: a retry has a new id.
  std::uint64_t id = 0;
  int deaths = 0;
  for (std::uint64_t i = 0; i < 70; ++i) {
    int tries = 0;
    while (++id % 7 == 0 || id % 31 == 0)
      if (++deaths, ++tries == 2) break;
    const Measurement m = measured(*executor, i);
    Measurement expected;
    ASSERT_TRUE(here.measure(placement(i), expected).ok());
    if (tries == 2) {  // Request 62 hangs, and 63 crashes.
      EXPECT_THAT(m.failure, StartsWith("crashed: signal 11"));
    } else if (id % 5 == 0) {
      EXPECT_THAT(m.failure, StartsWith("oom: op '"));
      EXPECT_EQ(m.bytes_over, 1);
    } else {
      EXPECT_TRUE(m.valid) << m.failure;
      EXPECT_EQ(m.step_time_s, expected.step_time_s) << "the answer is of its own placement";
    }
  }
  EXPECT_EQ(deaths, 13);
  EXPECT_EQ(executor->restarts(), deaths);
}

TEST_F(ProcessExecutorTest, OutOfMemoryIsAResultAndRestartsNothing) {
  const auto executor = make({"--oom-every=1"});
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_THAT(measured(*executor, i).failure, StartsWith("oom: "));
  EXPECT_EQ(executor->restarts(), 0);
}

TEST_F(ProcessExecutorTest, PlacementThatAlwaysCrashesIsAFailedMeasurementAndIsRemembered) {
  const auto executor = make({"--crash-every=1"});
  const Measurement m = measured(*executor, 1);
  EXPECT_FALSE(m.valid);
  EXPECT_THAT(m.failure, StartsWith("crashed: signal 11 (Segmentation fault)"));
  EXPECT_EQ(m.peak_bytes.size(), devices_.size());
  EXPECT_EQ(measured(*executor, 1), m);
  EXPECT_EQ(executor->restarts(), 1) << "a repeated request starts no process";
  EXPECT_FALSE(out_of_memory(m.valid, m.failure));
}

TEST_F(ProcessExecutorTest, LostDeviceEndsTheProcessAndItsFinalMessageIsTheCause) {
  const auto executor = make({"--poison-every=1"}, 1'000, std::chrono::seconds{10});
  EXPECT_EQ(measured(*executor, 1).failure, "poisoned: measurement 2 lost its device on purpose");
  const auto once = make({"--poison-every=2"}, 1'000, std::chrono::seconds{10});
  EXPECT_TRUE(measured(*once, 1).valid);
  EXPECT_TRUE(measured(*once, 2).valid) << "tried again in another process";
  EXPECT_EQ(once->restarts(), 1);
}

TEST_F(ProcessExecutorTest, HangEndsAtItsDeadline) {
  const auto executor = make({"--hang-every=1"}, 1'000, milliseconds{300});
  EXPECT_THAT(measured(*executor, 1).failure, StartsWith("timeout: no progress for "));
  EXPECT_EQ(executor->restarts(), 1) << "tried once more";
}

TEST_F(ProcessExecutorTest, KillsAStoppedProcessAndRetriesItsEvaluation) {
  const auto executor = make({"--delay=100ms"});
  executor->start(placement(1), {});
  Measurement m;
  ASSERT_TRUE(wait_until([&] { return !*executor->poll(m) && executor->pid() != 0; }));
  const pid_t stopped = executor->pid();
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  ASSERT_TRUE(wait_until([&] { return *executor->poll(m); }));
  EXPECT_TRUE(m.valid) << m.failure;
  EXPECT_NE(executor->pid(), stopped);
  EXPECT_TRUE(is_gone(stopped));
}

TEST_F(ProcessExecutorTest, RestartsAProcessThatWasKilled) {
  const auto executor = make();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(measured(*executor, static_cast<std::uint64_t>(i)).valid);
    ASSERT_EQ(::kill(executor->pid(), SIGKILL), 0);
  }
  EXPECT_TRUE(measured(*executor, 9).valid);
}

TEST_F(ProcessExecutorTest, PollNeverBlocks) {
  const auto executor = make({"--delay=400ms"});
  executor->start(placement(1), {});
  Measurement m;
  int polls = 0;
  EXPECT_TRUE(wait_until([&] { return ++polls, *executor->poll(m); }));
  EXPECT_TRUE(m.valid);
  EXPECT_GT(polls, 10) << "a poll that blocked would return the first result";
}

TEST_F(ProcessExecutorTest, GivesUpWithTheCauseInOneLine) {
  const auto executor = make({"--crash-every=1"}, /*restarts=*/3);
  EXPECT_FALSE(measured(*executor, 1).valid);
  Measurement m;
  const auto second = executor->measure(placement(2), m);
  const auto third = second ? executor->measure(placement(3), m) : second;
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, Errc::kPeerLost);
  EXPECT_THAT(
      third.error().context,
      StartsWith("executor 'fake': ended 4 times within a minute, the last time: crashed: signal 11"));
  EXPECT_TRUE(executor->broken());
}

TEST_F(ProcessExecutorTest, ReportsWhyAProgramCannotStart) {
  const auto executor = make({"--nonsense"}, /*restarts=*/1);
  Measurement m;
  const auto done = executor->measure(placement(1), m);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().context, HasSubstr("crashed: exit status 2: error: --nonsense: is not an option"));
  const auto missing = helper_program("cuda-of-another-build");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().context, HasSubstr("emplace-exec-cuda-of-another-build is not in"));
}

TEST_F(ProcessExecutorTest, RefusalIsReportedBeforeAnythingRunsAndIsFinal) {
  const auto executor = make({"--refuse"});
  Measurement m;
  for (int i = 0; i < 2; ++i) {
    const auto done = executor->measure(placement(1), m);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, Errc::kUnsupported);
    EXPECT_EQ(done.error().context, "executor 'fake': refuses every graph because of --refuse");
  }
  EXPECT_TRUE(executor->broken());
  EXPECT_EQ(executor->restarts(), 0);
}

TEST_F(ProcessExecutorTest, ChaosOptionsMayUseASpace) {
  const auto executor = make({"--oom-every", "2"});
  EXPECT_TRUE(measured(*executor, 1).valid);
  EXPECT_FALSE(measured(*executor, 2).valid);
}

TEST_F(ProcessExecutorTest, FailedForkIsAnErrorAndTheNextOneWorks) {
  class Refusing final : public process::Spawner {
    int spawn(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions,
              const posix_spawnattr_t& attributes, char* const* arguments,
              char* const* environment) override {
      if (std::exchange(refused_, true))
        return process::Spawner::spawn(pid, program, actions, attributes, arguments, environment);
      return EAGAIN;
    }
    bool refused_ = false;
  } spawner;
  const HelperCommand command{helper_path("fake"), {}, {}};
  const auto refused = HelperProcess::start(command, spawner);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, HasSubstr("cannot be started: Resource temporarily unavailable"));
  const auto started = HelperProcess::start(command, spawner);
  ASSERT_TRUE(started.ok()) << started.error().context;
  EXPECT_GT((*started)->pid(), 0);
}

TEST_F(ProcessExecutorTest, LeavesNoProcess) {
  pid_t pid = 0;
  {
    const auto executor = make({"--delay=10s"});
    executor->start(placement(1), {});
    Measurement m;
    ASSERT_TRUE(wait_until([&] { return !*executor->poll(m) && executor->pid() != 0; }));
    pid = executor->pid();
  }
  EXPECT_TRUE(is_gone(pid)) << "in the middle of a measurement";
}

TEST_F(ProcessExecutorTest, ProcessEndsWhenItsParentIsKilled) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const auto executor = make();
    Measurement m;
    const bool ok = executor->measure(placement(1), m).ok();
    const pid_t child = ok ? executor->pid() : 0;
    if (::write(fds[1], &child, sizeof child) != sizeof child) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t child = 0;
  ASSERT_EQ(::read(fds[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(wait_until([&] { return is_gone(child); }));
  ::close(fds[0]);
  ::close(fds[1]);
}

TEST_F(ProcessExecutorTest, WaitingThreadsDoNotSpin) {
  ProcessRequest request;
  const auto executor = make_process_executor("fake", graph_, devices_, request);
  Measurement m;
  ASSERT_TRUE(executor->measure(placement(1), m).ok());
  const pid_t pid = dynamic_cast<ProcessExecutor&>(*executor).pid();
  const auto environment = read_file("/proc/" + std::to_string(pid) + "/environ");
  ASSERT_TRUE(environment.ok());
  const std::string text{reinterpret_cast<const char*>(environment->data()), environment->size()};
  for (const char* variable : {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT=0", "OMP_NUM_THREADS=1"})
    EXPECT_THAT(text, HasSubstr(variable));
}

TEST(ChaosPlan, ParsesKnownFaultsOnly) {
  const auto plan = parse_chaos("crash-every=7,hang-every=31,oom-every=5,poison-every=11");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->crash_every, 7u);
  EXPECT_EQ(plan->hang_every, 31u);
  EXPECT_EQ(plan->oom_every, 5u);
  EXPECT_EQ(plan->poison_every, 11u);
  EXPECT_FALSE(parse_chaos("")->any());
  for (const char* wrong :
       {"crash", "crash-every=", "crash-every=x", "crash-every=-1", "burn-every=3", "=", "crash-every=7x"})
    EXPECT_FALSE(parse_chaos(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace emplace::launcher
