#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "record/run_reader.h"
#include "record/store/run_rows.h"

namespace SQLite {
class Statement;
class Transaction;
}  // namespace SQLite

namespace emplace::record {

class RunWatch;

/// What a commit waits for.
enum class Durability : std::uint8_t {
  kDisk,     ///< The disk: what was acknowledged survives a power cut.
  kProcess,  ///< The kernel: it survives the death of every process, but a power cut takes the last seconds.
};
constexpr auto enum_words(Durability) {
  return EnumWords{"durability", std::array{EnumWord{Durability::kDisk, "disk"},
                                            EnumWord{Durability::kProcess, "process"}}};
}

/// The only writer of a run. Writes gather in a transaction until commit(), which returns when they are on
/// disk; what this object reads includes them. Errors of every add: kInvalid if the file is damaged; kIo.
/// Thread: one.
class RunWriter final : public RunReader {
 public:
  /// Makes `directory` (0700; one that exists keeps its mode) and the database in it. Errors: kInvalid if it
  /// holds a run already; kIo if it cannot be written or lies on a network file system.
  static Result<std::unique_ptr<RunWriter>> create(const std::filesystem::path& directory,
                                                   const RunFacts& facts,
                                                   const std::vector<GraphRow>& graphs = {},
                                                   const std::vector<BaselineRow>& baselines = {});
  /// Goes on with a run; an older schema is brought up to date. With kDisk the whole log is first written
  /// into the database and synced. Errors: kIo if there is no run, on a network file system, while somebody
  /// reads it quietly or from its log, if the disk refuses, or for what may pass (a read that fails, no
  /// descriptor, no memory); kInvalid if it is damaged, newer than this program, or being written.
  static Result<std::unique_ptr<RunWriter>> open(const std::filesystem::path& directory,
                                                 Durability durability = Durability::kDisk);
  ~RunWriter() override;

  /// Adds an episode, all of it or nothing. False: it was counted before. Errors: kInvalid also if another
  /// episode has one of its placement ids.
  Result<bool> add_episode(const EpisodeRow& episode, const std::vector<MeasurementRow>& measurements);
  Result<Unit> add_update(const UpdateRow& update);
  Result<Unit> add_checkpoint(const CheckpointRow& checkpoint);
  /// Those after these updates.
  Result<Unit> drop_checkpoints(const std::vector<std::uint64_t>& updates);
  /// On disk when it returns.
  Result<Unit> add_remeasured(RemeasureSession& session, const std::vector<RemeasuredRow>& rows);
  Result<Unit> add_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// The same, unless it is there already.
  Result<Unit> note_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// Returns when everything is on disk, under its path, in files that only this process has written. Errors:
  /// as watch(); nothing may then be acknowledged.
  Result<Unit> commit();
  std::size_t uncommitted_rows() const { return rows_; }
  /// The chain after the last episode that was added.
  std::uint64_t chain() const { return chain_; }

  /// Looks after the files while the run goes on: that they are where they were, that nobody else wrote to
  /// them (if somebody did, everything is verified), and that the next `rows` rows are as they were written.
  /// Call it about once a second. Errors: kIo for what may come back (the disk, a folder that was moved);
  /// kInvalid for what will not: damage, another file in their place.
  Result<Unit> watch(std::size_t rows);
  /// True if run.db was deleted while this object has it open: write_again() can save it.
  bool deleted() const;
  /// Writes the deleted run.db once more, with everything that was committed, and closes it: open it again
  /// afterwards. Errors (kIo): the disk refuses; `run` stays open, and nothing is lost yet.
  static Result<Unit> write_again(std::unique_ptr<RunWriter>& run);

 private:
  RunWriter(std::unique_ptr<RunConnection> connection, Durability durability);
  void begin();

  const Durability durability_;
  std::unique_ptr<SQLite::Transaction> transaction_;
  std::unique_ptr<SQLite::Statement> insert_episode_, insert_measurement_, insert_update_, insert_checkpoint_;
  std::uint64_t chain_ = 0;
  std::uint64_t last_seq_ = 0, last_update_ = 0;
  std::size_t rows_ = 0;  // Since the last commit.
  std::unique_ptr<RunWatch> watch_;
};

}  // namespace emplace::record
