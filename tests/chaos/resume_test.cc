// Goal: a run whose processes are all killed at any moment continues with --resume, and everything that it
// had acknowledged is recorded once. Method: the real program; SIGKILL to the launcher, and so to its head,
// at moments of a seeded schedule: while it starts, between commits, in the middle of them; after each the
// database is read as the crash left it. EMPLACE_CHAOS=long kills 200 times, the short form 8 times.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/rng.h"
#include "record/run_reader.h"
#include "tests/chaos/cluster_run.h"
#include "tests/chaos/history.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

constexpr Seconds kResumeDeadline{30};

class KilledRun {
 public:
  explicit KilledRun(const TemporaryFolder& folder) : directory_{folder.at("run")} {}

  /// The command that starts or resumes it.
  std::vector<std::string> command(const std::string& limit, const std::string& value) const {
    if (std::filesystem::exists(directory_ + "/run.db"))
      return {"run", "--resume", "--run-dir", directory_, "--quiet", "--json", limit, value};
    return {"run",       shipped("configs/quickstart.toml"),
            "--run-dir", directory_,
            "--quiet",   "--json",
            limit,       value,
            "--set",     "input.graph=" + shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
            "--set",     "run.starts=[\"scratch\"]",
            "--set",     "compare.methods=[\"expert\"]",
            "--set",     "policy.groups=8",
            "--set",     "policy.hierarchical.hidden=8",
            "--set",     "record.checkpoint_every=5",
            "--set",     "record.keep_every=40"};
  }
  const std::string& directory() const { return directory_; }
  /// The last acknowledged episode.
  std::uint64_t acknowledged() const {
    const auto bytes = read_file(directory_ + "/head.seq");
    if (!bytes) return 0;
    return std::strtoull(std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()}.c_str(),
                         nullptr, 10);
  }

 private:
  const std::string directory_;
};

TEST(Resume, AfterSigkillAcknowledgedEpisodesExistOnce) {
  const int kills = long_form() ? 200 : 8;
  const TemporaryFolder folder;
  const KilledRun run{folder};
  Rng rng{41, Purpose::kTest, 0};
  std::uint64_t most = 0;
  double best = 0;
  for (int kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    Process process{run.command("--budget", "600s")};
    const std::uint64_t before = run.acknowledged();
    if (kill == 0 || rng.below(8) > 0) {
      const std::uint64_t more = 1 + rng.below(40);
      ASSERT_TRUE(wait_until([&] { return run.acknowledged() >= before + more; }, kResumeDeadline))
          << process.err();
    } else {  // During its start: shortly after its log grew.
      const auto size = [&] {
        std::error_code none;
        return std::filesystem::file_size(run.directory() + "/log/head", none);
      };
      const auto grown = size();
      ASSERT_TRUE(wait_until([&] { return size() != grown; }, kResumeDeadline));
    }
    process.send(SIGKILL);
    ASSERT_TRUE(process.finish().killed);
    // Its head ends with it and locks the folder until then.
    std::unique_ptr<record::RunReader> db;
    ASSERT_TRUE(wait_until(
        [&] {
          auto opened = record::RunReader::open(run.directory(), record::Reading::kQuiet);
          if (opened) db = *std::move(opened);
          return db != nullptr;
        },
        kResumeDeadline));
    const std::uint64_t acknowledged = run.acknowledged();
    EXPECT_GE(acknowledged, most);
    const auto whole = db->verify();  // Checks the chain, the seals, and PRAGMA integrity_check.
    EXPECT_TRUE(whole.ok()) << whole.error().context;
    const auto counters = db->results().counters();
    EXPECT_GE(counters->episodes, acknowledged);
    EXPECT_EQ(counters->measurements, 4 * counters->episodes);
    most = counters->episodes;
    const auto found = db->results().best();
    ASSERT_TRUE(found.ok());
    if (best > 0) {
      ASSERT_TRUE(found->has_value());
      EXPECT_LE((**found).step_time_s, best) << "the best placement is never lost";
    }
    if (*found) best = (**found).step_time_s;
    EXPECT_EQ(check_history(run.directory(), 2).violations, std::vector<std::string>{});
  }
  const Finished last = emplace::testing::run(run.command("--episodes", std::to_string(most + 60)));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_LE(json::parse(last.out)["best_step_time_s"].get<double>(), best);
  EXPECT_EQ(check_history(run.directory(), 2).violations, std::vector<std::string>{});
  EXPECT_EQ(leftover_files(run.directory()), std::vector<std::string>{});
  const Finished replayed = emplace::testing::run({"replay", run.directory(), "--verify", "--json"});
  EXPECT_EQ(replayed.status, 0) << replayed.err;
  EXPECT_TRUE(json::parse(replayed.out)["identical"].get<bool>()) << "as without crashes";
}

}  // namespace
}  // namespace emplace::testing
