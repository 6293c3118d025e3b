// Goal: any process of a run may be killed, stopped, disconnected or starved, and afterwards the history in
// run.db is sound, the run has continued, and nothing is left. Method: the real program with every actor in
// its own process; faults on a seeded schedule; tests wait for actions of the processes, with deadlines.
// EMPLACE_CHAOS=long runs the long form.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "tests/chaos/cluster_run.h"
#include "tests/chaos/fault_proxy.h"
#include "tests/chaos/history.h"
#include "tests/chaos/namespaces.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

constexpr Seconds kChaosDeadline{20};  // Deadline of any required event.
constexpr Seconds kRecovery{5};        // Promised p99.
constexpr Seconds kDetection{2};       // Promised p99: three heartbeats and half a second.

/// Seed of every schedule.
std::uint64_t seed() {
  const char* const given = std::getenv("EMPLACE_CHAOS_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}

/// Rounds of kills per test.
int kill_rounds() {
  const char* const given = std::getenv("EMPLACE_CHAOS_KILLS");
  if (given != nullptr) return std::atoi(given);
  return long_form() ? 100 : 3;
}

void expect_nothing_left(const ClusterRun& run) {
  EXPECT_EQ(run.processes(), std::vector<pid_t>{}) << "no process is left";
  EXPECT_EQ(leftover_files(run.directory()), std::vector<std::string>{});
}

json summary_of(const Finished& done) {
  json summary = json::parse(done.out, nullptr, false);
  EXPECT_TRUE(summary.is_object()) << done.out << done.err;
  if (!summary.is_object()) return json::object();
  const json leases = summary.value("leases", json::object());  // Missing if it ended within half a second.
  const auto number = [&](const char* key) { return leases.value(key, std::uint64_t{0}); };
  EXPECT_EQ(number("issued"), number("counted") + number("open") + number("expired") + number("refused"))
      << leases;
  return summary;
}

/// Checks what must hold for a run. A run that does not end by itself is ended by a signal and resumed for a
/// moment, so that everything in flight arrives. Returns its summary.
json expect_sound(ClusterRun& run) {
  const bool by_itself = run.ends_by_itself();
  if (!by_itself) run.launcher().send(SIGTERM);
  const Finished done = run.finish();
  EXPECT_EQ(done.status, by_itself ? 0 : 128 + SIGTERM) << done.err;
  expect_nothing_left(run);
  json summary = summary_of(done);
  if (!by_itself) {
    const Finished resumed = emplace::testing::run(
        {"run", "--resume", "--run-dir", run.directory(), "--budget", "2s", "--json", "--quiet"});
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(summary_of(resumed)["restarts"].size(), run.nodes().size()) << "the same processes";
    expect_nothing_left(run);
  }
  const History history = check_history(run.directory(), 2);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_EQ(history.missing_episodes, 0u);
  EXPECT_EQ(history.consumed, history.episodes) << "every episode was learned from";
  EXPECT_EQ(history.updates, history.consumed) << "one episode in each batch";
  std::printf("%llu episodes, %llu updates\n", static_cast<unsigned long long>(history.episodes),
              static_cast<unsigned long long>(history.updates));
  return summary;
}

/// The 99th percentile.
Seconds p99(std::vector<Seconds> times) {
  std::sort(times.begin(), times.end());
  return times.empty() ? Seconds{0} : times[(times.size() * 99 - 1) / 100];
}
void report(const char* what, const std::vector<Seconds>& times) {
  if (times.empty()) return;
  const auto longest = std::max_element(times.begin(), times.end());
  std::printf("%s: %zu times, p99 %.2f s, longest %.2f s\n", what, times.size(), p99(times).count(),
              longest->count());
}

using Victims = std::vector<std::vector<std::string>>;

/// Repeatedly kills some of `victims`, drawn by the seed, and checks the run and its remains.
json survive_kills(const char* what, const Victims& victims) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  EXPECT_TRUE(run.wait_for_all(kChaosDeadline));
  std::vector<Seconds> recoveries;
  Rng rng{seed(), Purpose::kTest, 0};
  std::size_t killed = 0;
  for (int kill = 0; kill < kill_rounds() && !::testing::Test::HasFailure(); ++kill) {
    // Waits for some more work, so that each kill happens at another moment.
    EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, 1 + rng.below(20)));
    const auto& nodes = victims[rng.below(static_cast<std::uint32_t>(victims.size()))];
    killed += nodes.size();
    recoveries.push_back(run.kill_and_recover(nodes, kChaosDeadline));
    EXPECT_GE(recoveries.back().count(), 0) << nodes.front() << " did not come back";
    if (recoveries.back() > kRecovery / 2)
      std::printf("kill %d, of %s: %.2f s, %.1f s after the start\n", kill, nodes.front().c_str(),
                  recoveries.back().count(), run.elapsed().count());
  }
  report(what, recoveries);
  EXPECT_LT(p99(recoveries), kRecovery);
  json summary = expect_sound(run);
  const Finished replayed = emplace::testing::run({"replay", run.directory(), "--verify", "--json"});
  EXPECT_EQ(replayed.status, 0) << "the replay is identical to the bit: " << replayed.err;
  std::printf("%zu processes killed\n", killed);
  return summary;
}

TEST(Chaos, KilledExecutorsRestartAndNothingIsLost) {
  const json summary =
      survive_kills("executors killed", {{"executor/0"}, {"executor/1"}, {"executor/0", "executor/1"}});
  EXPECT_GE(summary["restarts"]["executor/0"].get<int>() + summary["restarts"]["executor/1"].get<int>(), 3);
  EXPECT_EQ(summary["restarts"]["head"], 0);
}
TEST(Chaos, KilledLearnerRestartsAndNothingIsLost) { survive_kills("learner killed", {{"learner"}}); }
TEST(Chaos, KilledRecorderRestartsAndNothingIsLost) { survive_kills("recorder killed", {{"recorder"}}); }
TEST(Chaos, KilledSamplersRestartAndNothingIsLost) {
  survive_kills("samplers killed", {{"sampler/0"}, {"sampler/1"}});
}
TEST(Chaos, KilledHeadRestartsAndNothingIsLost) { survive_kills("head killed", {{"head"}}); }
TEST(Chaos, AnyKilledNodesRestartAndNothingIsLost) {
  survive_kills("any node killed", {{"head"},
                                    {"learner"},
                                    {"recorder"},
                                    {"sampler/0"},
                                    {"executor/0"},
                                    {"head", "recorder"},
                                    {"learner", "sampler/1", "executor/1"}});
}

TEST(Chaos, StoppedExecutorIsNoticedAndItsLateResultsDoNotCount) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  std::vector<Seconds> detections;
  const int pauses = long_form() ? 100 : 2;
  for (int pause = 0; pause < pauses; ++pause) {
    const std::string node = "executor/" + std::to_string(pause % 2);
    const std::size_t lost = run.count_in_log("head", "node " + node + " lost");
    const std::size_t joined = run.count_in_log("head", "node " + node + " joined");
    const Seconds started = run.elapsed();
    ASSERT_TRUE(run.signal(node, SIGSTOP));
    ASSERT_TRUE(wait_until([&] { return run.count_in_log("head", "node " + node + " lost") > lost; },
                           kChaosDeadline));
    detections.push_back(run.elapsed() - started);
    // The other executor gets its work.
    EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1));
    ASSERT_TRUE(run.signal(node, SIGCONT));
    EXPECT_TRUE(wait_until([&] { return run.count_in_log("head", "node " + node + " joined") > joined; },
                           kChaosDeadline));
  }
  report("stopped executors noticed", detections);
  EXPECT_LT(p99(detections), kDetection);
  const json summary = expect_sound(run);
  EXPECT_EQ(summary["restarts"]["executor/0"], 0) << "a pause is no crash";
}

TEST(Chaos, StoppedHeadLosesNoNode) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  ASSERT_TRUE(run.signal("head", SIGSTOP));
  // The other nodes notice, which shows that the pause was long enough.
  EXPECT_TRUE(wait_until([&] { return run.count_in_log("executor/0", "head lost") > 0; }, kChaosDeadline));
  ASSERT_TRUE(run.signal("head", SIGCONT));
  EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1));
  EXPECT_EQ(run.count_in_log("head", "silent for three heartbeats"), 0u);
  expect_sound(run);
}

TEST(Chaos, StoppedLearnerOrRecorderPausesTheSamplers) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  for (const std::string node : {"learner", "recorder"}) {
    const std::size_t lost = run.count_in_log("head", "node " + node + " lost");
    ASSERT_TRUE(run.signal(node, SIGSTOP));
    ASSERT_TRUE(wait_until([&] { return run.count_in_log("head", "node " + node + " lost") > lost; },
                           kChaosDeadline));
    const std::uint64_t then = run.committed();
    EXPECT_FALSE(run.wait_for_episodes(then, Seconds{1.5}, run.max_in_flight() + 1)) << "samplers wait";
    const Seconds continued = run.elapsed();
    ASSERT_TRUE(run.signal(node, SIGCONT));
    EXPECT_TRUE(run.wait_for_episodes(then, kChaosDeadline, run.max_in_flight() + 1));
    EXPECT_LT(run.elapsed() - continued, kRecovery) << node;
  }
  expect_sound(run);
}

// The strongest requirement: a run with kills everywhere learns exactly the same bits.
TEST(Chaos, DeterministicRunKeepsItsParametersUnderKills) {
  const TemporaryFolder folder;
  const ClusterOptions options{
      .budget = Seconds{300}, .episodes = 300, .settings = {"run.deterministic=true"}};
  std::string undisturbed;
  {
    ClusterRun run{folder, "undisturbed", options};
    undisturbed = expect_sound(run)["parameters_sha256"].get<std::string>();
  }
  ClusterRun run{folder, "killed", options};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  int kills = 0;
  for (const std::string node : {"learner", "sampler/0", "recorder", "head", "executor/1", "learner"}) {
    if (run.committed() > 250) break;
    EXPECT_GE(run.kill_and_recover({node}, kChaosDeadline).count(), 0) << node;
    ++kills;
  }
  EXPECT_GE(kills, 3);
  EXPECT_EQ(expect_sound(run)["parameters_sha256"].get<std::string>(), undisturbed);
}

TEST(Chaos, NoNodeIsLostUnderLoad) {
  if (!long_form()) GTEST_SKIP() << "takes every CPU for ten minutes: EMPLACE_CHAOS=long";
  const TemporaryFolder folder;
  // Parameters of many MiB go to both samplers after every update.
  ClusterRun run{folder, "run", {.budget = Seconds{900}, .settings = {"policy.hierarchical.hidden=384"}}};
  std::atomic<bool> over{false};
  std::vector<std::jthread> load;
  for (unsigned i = 0; i < 4 * std::thread::hardware_concurrency(); ++i)
    load.emplace_back([&] {
      while (!over) {
      }
    });
  EXPECT_TRUE(run.wait_for_all(Seconds{60}));
  EXPECT_TRUE(wait_until([&] { return run.elapsed() > Seconds{600}; }, Seconds{700}));
  for (const std::string& node : run.nodes())
    EXPECT_EQ(run.count_in_log(node, " lost: "), 0u) << node << ": " << run.log_of(node);
  over = true;
  expect_sound(run);
}

TEST(Chaos, KilledLauncherEndsAllProcessesAndTheRunCanBeResumed) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  ASSERT_TRUE(run.signal("executor/1", SIGSTOP));  // A stopped process ends too.
  const std::uint64_t before = run.committed();
  run.launcher().send(SIGKILL);
  EXPECT_TRUE(run.finish().killed);
  EXPECT_TRUE(wait_until([&] { return run.processes().empty(); }, kChaosDeadline)) << "no process is left";
  EXPECT_FALSE(std::filesystem::exists(run.directory() + "/head.ipc")) << "no socket is left";
  const Finished resumed = emplace::testing::run(
      {"run", "--resume", "--run-dir", run.directory(), "--budget", "3s", "--json", "--quiet"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const History history = check_history(run.directory(), 2);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_GT(history.episodes, before);
  EXPECT_EQ(json::parse(resumed.out)["restarts"].size(), run.nodes().size()) << "the same processes";
  EXPECT_EQ(leftover_files(run.directory()), std::vector<std::string>{});
}

/// Fills the pipe that a process writes to, as if its reader did not read.
bool fill_pipe(pid_t pid, int fd) {
  const int pipe = ::open(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd)).c_str(),
                          O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (pipe < 0) return false;
  ::fcntl(pipe, F_SETPIPE_SZ, 4096);
  const char empty_line = '\n';
  while (::write(pipe, &empty_line, 1) == 1) {
  }
  const bool full = errno == EAGAIN;
  ::close(pipe);
  return full;
}

/// Elapsed time of a run according to its view; negative if the view does not answer.
double elapsed_by_view(const ClusterRun& run) {
  const Finished asked = emplace::testing::run({"ps", run.directory(), "--json"});
  const json status = json::parse(asked.out, nullptr, false);
  return asked.status == 0 && status.is_object() ? status.value("elapsed_s", -1.0) : -1.0;
}

/// Waits until every process, and the view each second, has tried to write output.
bool let_it_report(const ClusterRun& run, double for_s) {
  const double before = elapsed_by_view(run);
  return before >= 0 && wait_until([&] { return elapsed_by_view(run) > before + for_s; }, kChaosDeadline);
}

TEST(Chaos, StoppedLauncherBlocksNoNode) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  run.launcher().send(SIGSTOP);
  // As after some 95 s of unread progress lines.
  ASSERT_TRUE(fill_pipe(run.pid_of("head"), STDOUT_FILENO));
  EXPECT_TRUE(let_it_report(run, 3));
  EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1));
  // All six nodes were lost when the head's loop waited for the launcher.
  EXPECT_LT(run.count_in_log("head", " lost"), 3u);
  run.launcher().send(SIGCONT);
  const json summary = expect_sound(run);
  EXPECT_EQ(summary["restarts"]["head"], 0);
}

TEST(Chaos, LauncherWithAFullPipeSupervisesItsProcesses) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  ASSERT_TRUE(fill_pipe(run.launcher().pid(), STDERR_FILENO));
  EXPECT_TRUE(let_it_report(run, 6)) << "a progress line is due every 5 s";
  EXPECT_GE(run.kill_and_recover({"executor/0", "sampler/1"}, kChaosDeadline).count(), 0);
  EXPECT_GE(run.kill_and_recover({"recorder"}, kChaosDeadline).count(), 0);
  const json summary = expect_sound(run);
  EXPECT_EQ(summary["restarts"]["recorder"], 1);
}

TEST(Chaos, FileSizeLimitActsLikeAFullDisk) {
  const TemporaryFolder folder;
  ClusterRun run{
      folder, "run", {.settings = {}, .where = {.prefix = {"prlimit", "--fsize=400000:unlimited"}}}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  ASSERT_TRUE(
      wait_until([&] { return run.count_in_log("recorder", " error recorder") > 0; }, kChaosDeadline));
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  for (const pid_t pid : run.processes()) ASSERT_EQ(::prlimit(pid, RLIMIT_FSIZE, &none, nullptr), 0);
  ASSERT_EQ(::prlimit(run.launcher().pid(), RLIMIT_FSIZE, &none, nullptr), 0);
  EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1));
  const json summary = expect_sound(run);
  for (const auto& [node, restarts] : summary["restarts"].items()) EXPECT_EQ(restarts, 0) << node;
}

TEST(Chaos, TraceContainsEventsOfAKilledProcess) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {.settings = {"record.trace=true"}}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  ASSERT_TRUE(run.wait_for_episodes(0, kChaosDeadline, 5));
  ASSERT_GE(run.kill_and_recover({"executor/0"}, kChaosDeadline).count(), 0);
  run.launcher().send(SIGTERM);
  EXPECT_EQ(run.finish().status, 128 + SIGTERM);
  expect_nothing_left(run);
  const auto packed = read_file(std::filesystem::path{run.directory()} / "trace.json.gz");
  ASSERT_TRUE(packed.ok());
  const Bytes text = *decompress(*packed, "trace");
  const auto* first = reinterpret_cast<const char*>(text.data());
  const json trace = json::parse(first, first + text.size());
  json track;  // Track of the killed actor.
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "thread_name" && event["args"]["name"] == "executor/0") track = event["tid"];
  json process;
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "process_name" && event["args"]["name"] == "executor/0") process = event["pid"];
  std::string incarnations;  // An s for each start, an m if it then measured.
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != process || event["tid"] != track) continue;
    if (event["name"] == "start") incarnations += 's';
    if (event["name"] == "LeaseGranted" && !incarnations.ends_with('m')) incarnations += 'm';
  }
  EXPECT_EQ(incarnations, "smsm");
}

TEST(Chaos, CrashLoopEndsTheRunWithTheFirstCause) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {.restarts_per_minute = 3, .executor = "memory = \"1MB\""}};
  const Finished done = run.finish();
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_NE(done.err.find("failed 4 times within a minute; first cause: "), std::string::npos) << done.err;
  // An allocation or the stack of a thread fails first with this little memory.
  EXPECT_TRUE(done.err.find("std::bad_alloc") != std::string::npos ||
              done.err.find("Resource temporarily unavailable") != std::string::npos)
      << done.err;
  EXPECT_TRUE(run.processes().empty());
  EXPECT_EQ(leftover_files(run.directory()), std::vector<std::string>{});
}

/// A run with keys whose executors, or all nodes, dial the head through a proxy.
struct Proxied {
  explicit Proxied(ClusterOptions options, bool all = false) {
    const std::uint16_t head = free_port();
    auto made = FaultProxy::make(0, head, seed());
    EXPECT_TRUE(made.ok());
    proxy = *std::move(made);
    const std::string keys = folder.at("keys");
    for (const char* role : {"--name=head", "--role=actor", "--role=executor"})
      EXPECT_EQ(testing::run({"keygen", keys, role, "--quiet"}).status, 0) << role;
    const auto key = [&](const char* name) { return "key = \"" + keys + "/" + name + ".key\"\n"; };
    const std::string dial = "dial = \"tcp://127.0.0.1:" + std::to_string(proxy->port()) + "\"\n";
    options.head = key("head") + "allowed = \"" + keys +
                   "/allowed.toml\"\nendpoint = \"tcp://127.0.0.1:" + std::to_string(head) + "\"";
    options.executor = key("executor") + dial;
    options.others = key("actor") + (all ? dial : "");
    run = std::make_unique<ClusterRun>(folder, "run", std::move(options));
    EXPECT_TRUE(run->wait_for_all(kChaosDeadline));
  }
  TemporaryFolder folder;
  std::unique_ptr<FaultProxy> proxy;
  std::unique_ptr<ClusterRun> run;
};

TEST(Chaos, SlowFragmentedNetworkChangesNothing) {
  Proxied world{ClusterOptions{}};
  for (const char* fault :
       {"both delay 40 jitter 40", "both split 100", "both merge 1", "both rate 200000"}) {
    ASSERT_TRUE(world.proxy->command(fault).ok());
    EXPECT_TRUE(
        world.run->wait_for_episodes(world.run->committed(), kChaosDeadline, world.run->max_in_flight() + 1))
        << fault;
  }
  world.proxy->heal();
  expect_sound(*world.run);
  EXPECT_EQ(world.run->count_in_log("head", " lost: "), 0u) << "slow is not dead";
}

TEST(Chaos, CutConnectionsReturnAndNothingIsLost) {
  Proxied world{ClusterOptions{}};
  Rng rng{seed(), Purpose::kTest, 1};
  for (int cut = 0; cut < (long_form() ? 300 : 8) && !HasFailure(); ++cut) {
    ASSERT_TRUE(world.proxy->command(rng.below(2) == 0 ? "cut" : "reset").ok());
    EXPECT_TRUE(
        world.run->wait_for_episodes(world.run->committed(), kChaosDeadline, world.run->max_in_flight() + 1));
  }
  expect_sound(*world.run);
}

TEST(Chaos, OneWayBlackholeIsNoticedInTimeAndHeals) {
  Proxied world{{.executors = 1}};
  ClusterRun& run = *world.run;
  std::vector<Seconds> detections;
  const int times = long_form() ? 100 : 2;
  for (int i = 0; i < times; ++i) {
    // The head misses messages that go up, the executor those that go down.
    const bool up = i % 2 == 0;
    const std::string node = up ? "head" : "executor/0";
    const std::string word = up ? "node executor/0 lost" : "head lost";
    const std::size_t lost = run.count_in_log(node, word);
    const Seconds started = run.elapsed();
    ASSERT_TRUE(world.proxy->command(up ? "up blackhole 1" : "down blackhole 1").ok());
    ASSERT_TRUE(wait_until([&] { return run.count_in_log(node, word) > lost; }, kChaosDeadline));
    detections.push_back(run.elapsed() - started);
    world.proxy->heal();
    EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1));
  }
  report("one-way blackholes noticed", detections);
  EXPECT_LT(p99(detections), kDetection);
  expect_sound(run);
}

/// Faults drawn by the seed, one after the other, with some work between them.
void survive_network_faults(bool all) {
  Proxied world{ClusterOptions{}, all};
  ClusterRun& run = *world.run;
  std::string schedule;
  for (int i = 0; i < (long_form() ? 150 : 8); ++i) {
    const auto fault = world.proxy->command("random");
    ASSERT_TRUE(fault.ok());
    schedule += *fault + "; ";
    // A blackhole lasts until it is noticed; other faults until some work was done under them.
    (void)run.wait_for_episodes(run.committed(), Seconds{2.5}, run.max_in_flight() + 1);
    world.proxy->heal();
    ASSERT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1)) << schedule;
  }
  std::printf("faults: %s\n", schedule.c_str());
  expect_sound(run);
}
TEST(Chaos, AnyNetworkFaultsOfExecutorsAreSurvived) { survive_network_faults(false); }
TEST(Chaos, AnyNetworkFaultsOfAllNodesAreSurvived) { survive_network_faults(true); }

TEST(Chaos, FlippedBytesAreNoticed) {
  Proxied world{ClusterOptions{}};
  ASSERT_TRUE(world.proxy->command("both flip 20000").ok());
  EXPECT_TRUE(world.run->wait_for_episodes(world.run->committed(), kChaosDeadline, 100));
  world.proxy->heal();
  expect_sound(*world.run);
}

TEST(Chaos, PortInUseIsOneLine) {
  const TemporaryFolder folder;
  const auto holder = FaultProxy::make(0, 1, seed());
  ASSERT_TRUE(holder.ok());
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string((*holder)->port());
  ClusterRun run{folder, "run", {.head = "insecure = true\nendpoint = \"" + endpoint + "\"", .settings = {}}};
  const Finished done = run.finish();
  EXPECT_EQ(done.status, 2) << done.err;
  EXPECT_NE(done.err.find("error: " + endpoint + ": the port is in use"), std::string::npos) << done.err;
  EXPECT_TRUE(run.processes().empty());
}

TEST(Chaos, FullDiskPausesTheRunUntilThereIsRoom) {
  if (!own_namespaces()) GTEST_SKIP() << own_namespaces().error().context;
  const TemporaryFolder folder;
  const auto disk = SmallDisk::make(folder.path() / "disk", std::size_t{32} << 20);
  if (!disk) GTEST_SKIP() << disk.error().context;
  ClusterRun run{folder, "disk/run", {}};
  ASSERT_TRUE(run.wait_for_all(kChaosDeadline));
  ASSERT_TRUE(disk->fill());
  EXPECT_TRUE(
      wait_until([&] { return run.log_of("recorder").find("full") != std::string::npos; }, kChaosDeadline));
  disk->free();
  EXPECT_TRUE(run.wait_for_episodes(run.committed(), kChaosDeadline, run.max_in_flight() + 1));
  expect_sound(run);
}

}  // namespace
}  // namespace emplace::testing
