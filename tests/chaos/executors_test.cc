// Goal: whatever happens to the processes of executors, a run loses no placement, counts none twice, and
// leaves no process. Method: the real program with four executors whose processes crash, hang and run out of
// memory by count, and are killed from outside on a seeded schedule; then run.db is checked for everything
// that holds for any run. EMPLACE_CHAOS=long takes ten minutes, the short form some seconds.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "record/run_reader.h"
#include "tests/chaos/cluster_run.h"
#include "tests/chaos/history.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

constexpr Seconds kExecutorsDeadline{30};
constexpr const char* kMark = "EMPLACE_CHAOS_MARK=";

std::string proc_file(const std::string& pid, const char* name) {
  const auto bytes = read_file("/proc/" + pid + "/" + name);
  return bytes ? std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()} : std::string{};
}

/// The executor processes of the run that has this mark in its environment, which they inherit.
std::vector<pid_t> executor_processes(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc", gone}) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!proc_file(pid, "comm").starts_with("emplace-exec-")) continue;
    if (proc_file(pid, "environ").find(kMark + mark) != std::string::npos) found.push_back(std::stoi(pid));
  }
  return found;
}

struct Counts {
  std::uint64_t all = 0, valid = 0;
  std::map<std::string, std::uint64_t> failures;  // Numbers of failures by their first word.
  // Placements that crashed an executor's processes, once each: it remembers them and does not try them again
  // when they are proposed again.
  std::map<std::string, std::uint64_t> given_up;
};
Counts counts_of(const std::string& directory) {
  Counts counts;
  const auto db = record::RunReader::open(directory, record::Reading::kInProgress);
  EXPECT_TRUE(db.ok());
  const auto rows = (*db)->log().measurements(1, 1'000'000);
  EXPECT_TRUE(rows.ok());
  const auto episodes = (*db)->log().episodes(1, 1'000'000);
  EXPECT_TRUE(episodes.ok());
  std::map<std::uint64_t, const record::EpisodeRow*> by_number;
  for (const record::EpisodeRow& episode : *episodes) by_number[episode.episode] = &episode;
  std::set<std::pair<std::string, Bytes>> known;  // (executor, placement)
  for (const record::MeasurementRow& row : *rows) {
    ++counts.all;
    counts.valid += row.valid ? 1 : 0;
    EXPECT_EQ(row.valid, row.failure.empty()) << row.failure;
    EXPECT_EQ(row.label, MeasurementLabel::kSimulated) << "a fake measures nothing";
    const std::string word = row.failure.substr(0, row.failure.find(':'));
    if (!row.valid) ++counts.failures[word];
    if (!row.valid && word != "oom") {
      const record::EpisodeRow& episode = *by_number.at(row.episode);
      const std::size_t ops = episode.placements.size() / episode.count;
      const auto begin = episode.placements.begin() + static_cast<std::ptrdiff_t>(row.number * ops);
      const bool first =
          known.emplace(row.executor, Bytes(begin, begin + static_cast<std::ptrdiff_t>(ops))).second;
      counts.given_up[word] += first ? 1 : 0;
    }
    EXPECT_EQ(row.samples_s.size(), row.valid ? 5u : 0u);
  }
  return counts;
}

/// Checks what must hold for a finished run, whatever the faults of its executors.
json expect_whole(ClusterRun& run, const Finished& done, std::uint64_t least_episodes, int status = 0) {
  EXPECT_EQ(done.status, run.ends_by_itself() ? status : 128 + SIGTERM) << done.err;
  EXPECT_EQ(run.processes(), std::vector<pid_t>{});
  EXPECT_EQ(executor_processes(run.directory()), std::vector<pid_t>{}) << "no executor process is left";
  EXPECT_EQ(leftover_files(run.directory()), std::vector<std::string>{});
  json summary = json::parse(done.out, nullptr, false);
  EXPECT_TRUE(summary.is_object()) << done.out << done.err;
  if (!summary.is_object()) return json::object();
  EXPECT_GE(summary["episodes"], least_episodes);
  for (const auto& [node, restarts] : summary["restarts"].items())
    EXPECT_EQ(restarts, 0) << node << ": a child's death is not its parent's";
  return summary;
}

ClusterOptions chaotic(const std::string& directory, const std::string& chaos) {
  ClusterOptions options{.executors = 4, .placement_takes = "1ms"};
  options.settings = {"executor.chaos=" + chaos, "executor.deadline=1s", "executor.restarts=1000000"};
  options.where.environment = {kMark + directory};
  return options;
}

TEST(ExecutorChaos, CrashesHangsAndFullDevicesLoseAndRepeatNothing) {
  const TemporaryFolder folder;
  ClusterOptions options = chaotic(folder.at("run"), "crash-every=7,hang-every=31,oom-every=5");
  if (!long_form()) options.episodes = 48;
  ClusterRun run{folder, "run", options};
  if (long_form()) {
    EXPECT_TRUE(wait_until([&] { return run.elapsed() > Seconds{600}; }, Seconds{700}));
    run.launcher().send(SIGTERM);
  }
  const Finished done = run.finish();
  const json summary = expect_whole(run, done, 48);
  const History history = check_history(run.directory(), 2);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  if (!long_form()) {
    EXPECT_EQ(history.missing_episodes, 0u);
    EXPECT_EQ(history.consumed, history.episodes);
  }
  const Counts counts = counts_of(run.directory());
  EXPECT_EQ(counts.all, 4 * history.episodes) << "every placement has one measurement";
  std::uint64_t full = 0, others = 0, given_up = 0;
  for (const auto& [word, count] : counts.failures) (word == "oom" ? full : others) += count;
  for (const auto& [word, count] : counts.given_up) given_up += count;
  // Every 7th and every 31st try crashes: 37 of 217 consecutive ones. Two of these are the second try of a
  // placement that has just crashed, so two of 182 tried placements fail finally. The counts continue from
  // one process to the next, so this is exact to one for each of the four executors.
  const std::uint64_t tried = counts.all - (others - given_up);
  EXPECT_NEAR(static_cast<double>(given_up), static_cast<double>(tried) * 2 / 182, 4);
  // With few placements hardly any is proposed again: counts all failures together.
  if (!long_form()) {
    EXPECT_LE(others, 4 + counts.all / 100);
  }
  for (const auto& [word, count] : counts.failures)
    EXPECT_TRUE(word == "oom" || word == "crashed" || word == "timeout") << word << ": " << count;
  EXPECT_NEAR(static_cast<double>(full), static_cast<double>(counts.all) / 5,
              5 + 0.05 * static_cast<double>(counts.all));
  std::printf("%llu placements, %llu out of memory, in %.1f s\n", static_cast<unsigned long long>(counts.all),
              static_cast<unsigned long long>(full), run.elapsed().count());
  for (const auto& [word, count] : counts.failures)
    if (word != "oom")
      std::printf("%s: %llu, of them %llu for the first time\n", word.c_str(),
                  static_cast<unsigned long long>(count),
                  static_cast<unsigned long long>(counts.given_up.at(word)));
}

TEST(ExecutorChaos, FatalPlacementFailsOnceAndTheRunContinues) {
  const TemporaryFolder folder;
  ClusterOptions options = chaotic(folder.at("run"), "crash-every=1");
  options.episodes = 3;
  ClusterRun run{folder, "run", options};
  expect_whole(run, run.finish(), 3, /*status=*/3);  // No placement fits.
  const Counts counts = counts_of(run.directory());
  EXPECT_EQ(counts.all, 12u);
  EXPECT_EQ(counts.failures.at("crashed"), 12u);
}

TEST(ExecutorChaos, ExecutorProcessesMayBeKilledAndStoppedFromOutside) {
  const TemporaryFolder folder;
  ClusterOptions options = chaotic(folder.at("run"), "oom-every=1000000");
  options.placement_takes = "5ms";
  ClusterRun run{folder, "run", options};
  ASSERT_TRUE(run.wait_for_episodes(0, kExecutorsDeadline, 4));
  Rng rng{1, Purpose::kTest, 5};
  for (int i = 0; i < (long_form() ? 200 : 6) && !HasFailure(); ++i) {
    std::vector<pid_t> living;
    ASSERT_TRUE(wait_until([&] { return !(living = executor_processes(run.directory())).empty(); },
                           kExecutorsDeadline));
    const pid_t victim = living[rng.below(static_cast<std::uint32_t>(living.size()))];
    ::kill(victim, i % 3 == 2 ? SIGSTOP : SIGKILL);
    EXPECT_TRUE(run.wait_for_episodes(run.committed(), kExecutorsDeadline, run.max_in_flight() + 1));
  }
  // A killed parent ends its child, and restarts with another.
  const auto before = executor_processes(run.directory());
  EXPECT_GE(run.kill_and_recover({"executor/0"}, kExecutorsDeadline).count(), 0);
  EXPECT_TRUE(wait_until(
      [&] {
        const auto now = executor_processes(run.directory());
        return std::count_if(before.begin(), before.end(), [&](pid_t pid) {
                 return std::find(now.begin(), now.end(), pid) == now.end();
               }) >= 1;
      },
      kExecutorsDeadline));
  run.launcher().send(SIGTERM);
  const Finished done = run.finish();
  EXPECT_EQ(done.status, 128 + SIGTERM) << done.err;
  EXPECT_EQ(executor_processes(run.directory()), std::vector<pid_t>{});
  const History history = check_history(run.directory(), 2);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_EQ(counts_of(run.directory()).all, 4 * history.episodes);
}

TEST(ExecutorChaos, ProcessCrashLoopEndsTheRunWithOneLine) {
  const TemporaryFolder folder;
  ClusterOptions options = chaotic(folder.at("run"), "crash-every=1");
  options.settings[2] = "executor.restarts=5";
  ClusterRun run{folder, "run", options};
  const Finished done = run.finish();
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_NE(
      done.err.find("executor 'fake': ended 6 times within a minute, the last time: crashed: signal 11"),
      std::string::npos)
      << done.err;
  EXPECT_EQ(executor_processes(run.directory()), std::vector<pid_t>{});
}

}  // namespace
}  // namespace emplace::testing
