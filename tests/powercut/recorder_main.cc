// Records episodes as a run's recorder does, one commit each, and prints on standard output what a recorder
// would acknowledge: "episode 7 update 1 checkpoint 1". It may be killed, or lose power, at any moment.
//
//   usage: power_cut_recorder RUN-DIRECTORY EPISODES disk|process close|exit
//
// Appends EPISODES episodes; then closes the database, or exits without closing it.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "record/run_writer.h"
#include "tests/powercut/episodes.h"

namespace emplace::powercut {
namespace {

constexpr std::uint64_t kUpdatesPerCheckpoint = 5;

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.context.c_str());
  std::exit(1);
}
template <class T>
T or_fail(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}

void print(const std::string& line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::exit(1);
}

class Recorder {
 public:
  explicit Recorder(std::unique_ptr<record::RunWriter> db) : db_{std::move(db)} {
    episodes_ = or_fail(db_->results().counters()).episodes;
    updates_ = or_fail(db_->log().last_update());
    const auto checkpoint = or_fail(db_->checkpoints().latest());
    checkpoint_ = checkpoint ? checkpoint->update : 0;
    acknowledge();
  }
  void record_one() {
    const std::uint64_t seq = episodes_ + 1;
    or_fail(db_->add_episode(episode_row(seq), measurement_rows(seq)));
    episodes_ = seq;
    if ((updates_ + 1) * kEpisodesPerUpdate <= episodes_) add_update();
    or_fail(db_->commit());
    acknowledge();
  }

 private:
  void add_update() {
    or_fail(db_->add_update(update_row(++updates_)));
    if (updates_ % kUpdatesPerCheckpoint != 0) return;
    checkpoint_ = updates_;
    Rng rng{updates_, Purpose::kTest, 3};
    or_fail(db_->add_checkpoint(
        {updates_, updates_, std::to_string(updates_), drawn_bytes(30'000, 256, rng), {}}));
    const auto kept = or_fail(db_->checkpoints().updates());
    if (kept.size() > 3) or_fail(db_->drop_checkpoints({kept.front()}));
  }
  void acknowledge() {
    print("episode " + std::to_string(episodes_) + " update " + std::to_string(updates_) + " checkpoint " +
          std::to_string(checkpoint_) + "\n");
  }

  std::unique_ptr<record::RunWriter> db_;
  std::uint64_t episodes_ = 0, updates_ = 0, checkpoint_ = 0;
};

int run(const std::filesystem::path& directory, std::uint64_t episodes, record::Durability durability,
        bool close) {
  if (!std::filesystem::exists(directory / "run.db")) or_fail(record::RunWriter::create(directory, {}));
  Recorder recorder{or_fail(record::RunWriter::open(directory, durability))};
  for (std::uint64_t i = 0; i < episodes; ++i) recorder.record_one();
  if (!close) ::_exit(0);
  return 0;
}

}  // namespace
}  // namespace emplace::powercut

int main(int count, char** words) {
  using emplace::record::Durability;
  if (count != 5) return 2;
  const bool process = std::string_view{words[3]} == "process";
  return emplace::powercut::run(words[1], std::strtoull(words[2], nullptr, 10),
                                process ? Durability::kProcess : Durability::kDisk,
                                std::string_view{words[4]} == "close");
}
