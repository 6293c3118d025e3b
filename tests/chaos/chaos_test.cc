// Goal: any process of a run may be killed, stopped, cut off or starved, and afterwards the history in run.db
// is sound, the run has gone on, and nothing is left. Method: the real program with every actor in a process
// of its own; faults on a seeded schedule; waits are for what the processes do, with deadlines.
// EMPLACE_CHAOS=long runs the numbers instead of the short form.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/chaos/cluster_run.h"
#include "tests/chaos/history.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

constexpr Seconds kDeadline{20};    // For anything that must happen.
constexpr Seconds kRecovery{5};     // The promise, p99.
constexpr std::uint64_t kSeed = 1;  // Of every schedule.

bool long_form() {
  const char* const form = std::getenv("EMPLACE_CHAOS");
  return form != nullptr && std::string_view{form} == "long";
}

/// What has to hold after a run that ended by itself. `gaps`: a controller was killed, and may have taken
/// numbers with it.
json expect_sound(ClusterRun& run, std::uint32_t controllers, bool gaps = false) {
  const Finished done = run.finish();
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(run.processes(), std::vector<pid_t>{}) << "no process is left";
  EXPECT_EQ(leftover_files(run.directory()), std::vector<std::string>{});
  const History history = check_history(run.directory(), controllers);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_GT(history.episodes, 0u);
  EXPECT_EQ(history.updates, history.consumed) << "one episode in each batch";
  if (!gaps) {
    EXPECT_EQ(history.missing_episodes, 0u);
    EXPECT_EQ(history.consumed, history.episodes) << "every episode was learned from";
  }
  const json summary = json::parse(done.out, nullptr, false);
  EXPECT_TRUE(summary.is_object()) << done.out;
  return summary;
}

/// Times in order, and the one that 99 of 100 do not exceed.
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

/// Kills of one role, on a seeded schedule, until the budget of the run is nearly spent or there were enough.
std::vector<Seconds> kill_again_and_again(ClusterRun& run,
                                          const std::vector<std::vector<std::string>>& victims, int kills,
                                          Seconds until) {
  std::vector<Seconds> recoveries;
  Rng rng{kSeed, Purpose::kTest, 0};
  for (int kill = 0; kill < kills && run.elapsed() < until; ++kill) {
    // Some more work first, so that each kill hits another moment.
    if (!run.wait_for_episodes(run.committed(), kDeadline, 1 + rng.below(20))) break;
    const auto& nodes = victims[rng.below(static_cast<std::uint32_t>(victims.size()))];
    recoveries.push_back(run.kill_and_recover(nodes, kDeadline));
    EXPECT_GE(recoveries.back().count(), 0) << nodes.front() << " did not come back";
    if (recoveries.back().count() < 0) break;
  }
  return recoveries;
}

TEST(Chaos, KilledExecutorsComeBackAndNothingIsLost) {
  const TemporaryFolder folder;
  ClusterRun run{folder, "run", {.budget = Seconds{long_form() ? 300 : 12}}};
  ASSERT_TRUE(run.wait_for_all(kDeadline)) << run.launcher().finish().err;
  const auto recoveries =
      kill_again_and_again(run, {{"executor/0"}, {"executor/1"}, {"executor/0", "executor/1"}},
                           long_form() ? 100 : 6, Seconds{long_form() ? 290 : 9});
  report("executors killed", recoveries);
  EXPECT_GE(recoveries.size(), long_form() ? 100u : 3u);
  EXPECT_LT(p99(recoveries), kRecovery);
  const json summary = expect_sound(run, 2);
  EXPECT_GE(summary["restarts"]["executor/0"].get<int>() + summary["restarts"]["executor/1"].get<int>(),
            static_cast<int>(recoveries.size()));
  EXPECT_EQ(summary["restarts"]["head"], 0);
}

}  // namespace
}  // namespace emplace::testing
