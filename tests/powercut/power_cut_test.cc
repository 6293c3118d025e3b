// Goal: an acknowledged episode survives a power cut, and the record can be continued after it.
// Method: real processes write real files below a layer that logs their operations (layer.cc). A cut is a
// place in that log: the folder is made again with everything synced by then and a drawn part of the rest,
// opened, verified, compared with what was acknowledged before the cut, and continued. Each round of a run
// starts where a cut has left it. EMPLACE_POWER_CUTS=200 is the long form; a failure names the seed and the
// place.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "record/run_writer.h"
#include "tests/chaos/history.h"
#include "tests/powercut/episodes.h"
#include "tests/powercut/power_cut.h"
#include "tests/support/scratch_folder.h"
#include "tests/system/process.h"

namespace emplace::powercut {
namespace {

using testing::Finished;
using testing::ScratchFolder;
using testing::TemporaryFolder;

constexpr const char* kRun = "runs/run";  // Neither folder exists at first.

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
std::size_t cuts_wanted() { return number_from("EMPLACE_POWER_CUTS", 40); }
std::uint64_t seed() { return number_from("EMPLACE_POWER_CUT_SEED", 1); }

/// The last acknowledged numbers in a recorder's output.
struct Acknowledged {
  std::uint64_t episodes = 0, updates = 0, checkpoint = 0;
  bool any = false;
};
Acknowledged acknowledged_in(const std::string& output) {
  Acknowledged last;
  const std::size_t end = output.rfind('\n');
  if (end == std::string::npos) return last;
  const std::size_t before = end == 0 ? std::string::npos : output.rfind('\n', end - 1);
  const std::string line = output.substr(before == std::string::npos ? 0 : before + 1);
  std::array<unsigned long long, 3> numbers{};
  last.any = std::sscanf(line.c_str(), "episode %llu update %llu checkpoint %llu", numbers.data(),
                         &numbers[1], &numbers[2]) == 3;
  last.episodes = numbers[0], last.updates = numbers[1], last.checkpoint = numbers[2];
  return last;
}

/// A watched folder with the log of all operations since it was last made.
class WatchedFolder {
 public:
  WatchedFolder() { renew({}); }

  std::filesystem::path folder() const { return std::filesystem::canonical(disk_.path()) / "folder"; }
  std::string log() const { return (memory_.path() / "log").string(); }
  const Tree& begin() const { return begin_; }
  std::vector<std::string> environment() const {
    return {std::string{"LD_PRELOAD="} + EMPLACE_POWERCUT_LAYER,
            std::string{kFolderVariable} + "=" + folder().string(), std::string{kLogVariable} + "=" + log()};
  }
  /// Replaces the folder by `tree` and clears the log.
  void renew(const Tree& tree) {
    tree.write(folder());
    begin_ = Tree::read(folder());
    std::ofstream{log(), std::ios::trunc};
  }

 private:
  const TemporaryFolder disk_;  // On a real file system.
  const ScratchFolder memory_{"power-cut-log"};
  Tree begin_;
};

/// Runs the recorder to its end.
void record(const WatchedFolder& watched, std::uint64_t episodes, const char* durability, bool close) {
  const std::string run = (watched.folder() / kRun).string(), count = std::to_string(episodes);
  std::vector<std::string> words{EMPLACE_POWERCUT_RECORDER, run, count, durability, close ? "close" : "exit"};
  std::vector<std::string> variables = watched.environment();
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  ASSERT_EQ(::posix_spawn(&process, argv[0], &files, nullptr, argv.data(), envp.data()), 0);
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

/// All files that the layer must observe: not the shared memory of SQLite, nor logs, which stdio writes.
std::map<std::string, Bytes> comparable(const Tree& tree) {
  std::map<std::string, Bytes> files;
  for (const auto& [path, file] : tree.files)
    if (!path.ends_with("-shm") && path.find("/log/") == std::string::npos) files[path] = file.content;
  return files;
}
void expect_layer_saw_everything(const WatchedFolder& watched, const Log& log) {
  const auto there = comparable(Tree::read(watched.folder()));
  const auto seen = comparable(uncut(watched.begin(), log, log.operations().size()));
  for (const auto& [path, content] : there) {
    ASSERT_TRUE(seen.contains(path)) << path;
    EXPECT_TRUE(seen.at(path) == content) << path << " is not as the layer saw it";
  }
  for (const auto& [path, content] : seen) EXPECT_TRUE(there.contains(path)) << path;
}

/// The fault of a record after a cut; empty if it has none. `acknowledged`: acknowledged before the cut.
std::string fault_of(const std::filesystem::path& run, const Acknowledged& acknowledged) {
  {
    const auto looked = record::RunReader::open(run, record::Reading::kQuiet);
    if (!looked) return "cannot be read: " + looked.error().context;
    if (auto whole = (*looked)->verify(); !whole) return "does not verify: " + whole.error().context;
  }
  const auto opened = record::RunWriter::open(run);
  if (!opened) return "cannot be opened: " + opened.error().context;
  record::RunWriter& db = **opened;
  const std::uint64_t episodes = db.results().counters()->episodes, updates = *db.log().last_update();
  const auto checkpoint = *db.checkpoints().latest();
  if (episodes < acknowledged.episodes)
    return std::to_string(episodes) + " episodes of " + std::to_string(acknowledged.episodes);
  if (updates < acknowledged.updates)
    return std::to_string(updates) + " updates of " + std::to_string(acknowledged.updates);
  if (acknowledged.checkpoint > 0 && (!checkpoint || checkpoint->update < acknowledged.checkpoint))
    return "the checkpoint after update " + std::to_string(acknowledged.checkpoint) + " is lost";
  for (std::uint64_t seq = std::max<std::uint64_t>(episodes, 20) - 19; seq <= episodes; ++seq) {
    const auto row = *db.log().row_of(seq - 1, true);
    if (!row) return "episode number " + std::to_string(seq) + " is lost";
    if (row->episode.actions != episode_row(seq).actions ||
        row->measurements.at(1).step_time_s != measurement_rows(seq).at(1).step_time_s)
      return "episode number " + std::to_string(seq) + " is not what was recorded";
  }
  if (auto added = db.add_episode(episode_row(episodes + 1), measurement_rows(episodes + 1)); !added)
    return "cannot be continued: " + added.error().context;
  if (auto done = db.commit(); !done) return "cannot be continued: " + done.error().context;
  if (auto whole = db.verify(); !whole) return "does not verify after it continued: " + whole.error().context;
  return {};
}

/// Draws a place of a log to cut at: half of them anywhere, half near output or syncs, where errors have
/// effects.
std::size_t draw_place(const Log& log, Rng& rng) {
  const std::size_t all = log.operations().size();
  std::size_t place = rng.below(static_cast<std::uint32_t>(all + 1));
  if (rng.below(2) == 0) return place;
  const auto critical = [&](std::size_t i) {
    const What what = log.operations()[i].what;
    return what == What::kPrinted || what == What::kSynced || what == What::kRenamed;
  };
  while (place < all && !critical(place)) ++place;
  return std::min(all, place + rng.below(2));
}

struct Tally {
  std::size_t cuts = 0, lost = 0, before_anything = 0;
  std::vector<std::string> damage;  ///< Faults other than a loss of the newest episodes.
};

/// Cuts `cuts` times, and checks each result. Returns the last tree, with which the next round starts.
Tree cut_many(const WatchedFolder& watched, std::size_t cuts, Rng& rng, Tally& tally, bool expect_sound) {
  const Log log{watched.log()};
  expect_layer_saw_everything(watched, log);
  const ScratchFolder scratch{"power-cut"};
  Tree last = watched.begin();
  for (std::size_t i = 0; i < cuts; ++i) {
    const std::size_t place = draw_place(log, rng);
    const Tree after = after_power_cut(watched.begin(), log, place, rng);
    after.write(scratch.path() / "after");
    Acknowledged acknowledged = acknowledged_in(log.printed(place));
    ++tally.cuts;
    if (!acknowledged.any && watched.begin().files.empty()) {  // The run did not exist yet.
      ++tally.before_anything;
      continue;
    }
    const std::string fault = fault_of(scratch.path() / "after" / kRun, acknowledged);
    tally.lost += fault.empty() ? 0 : 1;
    if (!fault.empty() && !fault_of(scratch.path() / "after" / kRun, {}).empty())
      tally.damage.push_back(fault);
    EXPECT_TRUE(fault.empty() || !expect_sound)
        << fault << ", cut after operation " << place << " of " << log.operations().size();
    if (fault.empty()) last = after;
  }
  return last;
}

Tally cut_recorders(std::size_t cuts, const char* durability, std::uint64_t stream, bool expect_sound) {
  constexpr std::size_t kRounds = 4;
  Rng rng{seed(), Purpose::kTest, stream};
  WatchedFolder watched;
  Tally tally;
  for (std::size_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed()) + ", round " + std::to_string(round));
    record(watched, 60 + rng.below(100), durability, /*close=*/rng.below(2) == 0);
    if (::testing::Test::HasFatalFailure()) break;
    const std::size_t share = cuts * (round + 1) / kRounds - cuts * round / kRounds;
    watched.renew(cut_many(watched, share, rng, tally, expect_sound));
  }
  return tally;
}

class PowerCut : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's own functions replace those of the layer";
#endif
  }
};

TEST_F(PowerCut, LosesNoAcknowledgedEpisode) {
  const Tally tally = cut_recorders(cuts_wanted(), "disk", 1, true);
  EXPECT_EQ(tally.lost, 0u);
  std::printf("%zu power cuts, %zu of them while the run was being made, %zu lost something\n", tally.cuts,
              tally.before_anything, tally.lost);
}

// Checks the layer and the cuts: a recorder that does not wait for the disk is noticed. Its record is sound
// nevertheless: record.durability = "process" costs the newest episodes and nothing else.
TEST_F(PowerCut, CatchesARecorderThatDoesNotWaitForTheDisk) {
  const Tally tally = cut_recorders(24, "process", 2, false);
  EXPECT_GT(tally.lost, 0u);
  EXPECT_EQ(tally.damage, std::vector<std::string>{});
}

/// Arguments of a run of the program below the layer, from its start, with every actor in its head.
std::vector<std::string> real_run(const std::filesystem::path& directory, const std::string& episodes) {
  if (std::filesystem::exists(directory / "run.db"))
    return {"run", "--resume", "--run-dir", directory.string(), "--quiet", "--json", "--episodes", episodes};
  return testing::small_run(directory.string(),
                            {"--quiet", "--json", "--episodes", episodes, "--set", "run.starts=[\"scratch\"]",
                             "--set", "record.checkpoint_every=5"});
}

/// The highest number in head.seq within the first `count` operations. The recorder writes it after each
/// commit and before it acknowledges the commit.
std::uint64_t acknowledged_by_head(const WatchedFolder& watched, const Log& log, std::size_t count) {
  const Tree tree = uncut(watched.begin(), log, count);
  const auto found = tree.files.find(std::string{kRun} + "/head.seq");
  if (found == tree.files.end()) return 0;
  const Bytes& text = found->second.content;
  return std::strtoull(std::string{reinterpret_cast<const char*>(text.data()), text.size()}.c_str(), nullptr,
                       10);
}

// The program itself: its launcher makes the record, its head writes it. After every fourth cut the program
// continues the run to its end, and all of it is replayed.
TEST_F(PowerCut, RunOfTheProgramContinuesAfterwards) {
  const std::size_t cuts = std::max<std::size_t>(4, cuts_wanted() / 5);
  Rng rng{seed(), Purpose::kTest, 3};
  WatchedFolder watched;
  const Finished first =
      testing::run(real_run(watched.folder() / kRun, "150"), {.environment = watched.environment()});
  ASSERT_EQ(first.status, 0) << first.err;
  const Log log{watched.log()};
  expect_layer_saw_everything(watched, log);
  ASSERT_EQ(acknowledged_by_head(watched, log, log.operations().size()), 150u);
  std::size_t resumed = 0;
  for (std::size_t i = 0; i < cuts; ++i) {
    const std::size_t place = draw_place(log, rng);
    const std::uint64_t acknowledged = acknowledged_by_head(watched, log, place);
    SCOPED_TRACE("seed " + std::to_string(seed()) + ", cut " + std::to_string(i) + " after operation " +
                 std::to_string(place) + " of " + std::to_string(log.operations().size()) + ", " +
                 std::to_string(acknowledged) + " episodes acknowledged");
    const Tree after = after_power_cut(watched.begin(), log, place, rng);
    if (acknowledged == 0) continue;  // No run was acknowledged yet.
    const ScratchFolder scratch{"power-cut"};
    const std::filesystem::path run = scratch.path() / "after" / kRun;
    after.write(scratch.path() / "after");
    {
      const auto looked = record::RunReader::open(run, record::Reading::kQuiet);
      ASSERT_TRUE(looked.ok()) << looked.error().context;
      const auto whole = (*looked)->verify();
      ASSERT_TRUE(whole.ok()) << whole.error().context;
      ASSERT_GE((*looked)->results().counters()->episodes, acknowledged);
    }
    if (i % 4 != 0) continue;
    const Finished on = testing::run(real_run(run, "160"));
    ASSERT_EQ(on.status, 0) << on.err;
    const testing::History history = testing::check_history(run, 2);
    EXPECT_EQ(history.violations, std::vector<std::string>{});
    EXPECT_GE(history.episodes, 160u);
    const Finished replayed = testing::run({"replay", run.string(), "--verify", "--json"});
    EXPECT_EQ(replayed.status, 0) << replayed.err;
    ++resumed;
  }
  EXPECT_GT(resumed, 0u);
}

}  // namespace
}  // namespace emplace::powercut
