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
#include "record/store/run_files.h"
#include "record/store/run_rows.h"

namespace SQLite {
class Statement;
class Transaction;
}  // namespace SQLite

namespace emplace::record {

class Patrol;

/// Durability of a commit.
enum class Durability : std::uint8_t {
  kDisk,  ///< Waits for the disk: acknowledged rows survive a power failure.
  /// Waits for the kernel: acknowledged rows survive a crash of any process; a power failure loses the last
  /// seconds.
  kProcess,
};
constexpr auto enum_words(Durability) {
  return EnumWords{"durability", std::array{EnumWord{Durability::kDisk, "disk"},
                                            EnumWord{Durability::kProcess, "process"}}};
}

/// The only writer of a run. Rows are collected in a transaction until commit(), which returns when they
/// are on disk; reads through this object include them. Errors of all add functions: kInvalid if the file
/// is damaged; kIo. Thread: one.
class RunWriter final : public RunReader {
 public:
  /// Creates `directory` (0700; an existing one keeps its mode) and the database in it. Errors: kInvalid if
  /// it contains a run already; kIo if it cannot be written or is on a network file system.
  static Result<std::unique_ptr<RunWriter>> create(const std::filesystem::path& directory,
                                                   const RunFacts& facts,
                                                   const std::vector<GraphRow>& graphs = {},
                                                   const std::vector<HeuristicRow>& heuristics = {});
  /// Opens a run to continue it; an older schema is migrated. With kDisk the whole log is first written
  /// into the database and synced. Errors: kIo if there is no run, on a network file system, while another
  /// process reads with kQuiet or from the log, for disk errors, or for a transient failure (read,
  /// descriptors, memory); kInvalid if the run is damaged, newer than this program, or being written.
  static Result<std::unique_ptr<RunWriter>> open(const std::filesystem::path& directory,
                                                 Durability durability = Durability::kDisk);
  ~RunWriter() override;

  /// Adds an episode atomically. Returns false if the episode is recorded already. Errors: also kInvalid if
  /// another episode has one of its placement ids.
  Result<bool> add_episode(const EpisodeRow& episode, const std::vector<MeasurementRow>& measurements);
  Result<Unit> add_update(const UpdateRow& update);
  Result<Unit> add_checkpoint(const CheckpointRow& checkpoint);
  /// Deletes the checkpoints after these updates.
  Result<Unit> drop_checkpoints(const std::vector<std::uint64_t>& updates);
  /// The rows are on disk when it returns.
  Result<Unit> add_remeasured(RemeasureSession& session, const std::vector<RemeasuredRow>& rows);
  Result<Unit> add_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// As add_actor(), unless the actor is recorded already.
  Result<Unit> note_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// Returns when all rows are on disk, under the run's path, in files that only this process wrote.
  /// Errors: as watch(); then no row may be acknowledged.
  Result<Unit> commit();
  std::size_t uncommitted_rows() const { return rows_; }
  /// The chain hash after the last added episode.
  std::uint64_t chain() const { return chain_; }

  /// Monitors the files during the run: they are in place, no other program wrote to them (otherwise
  /// everything is verified), and the next `rows` rows match their hashes. Call about once a second.
  /// Errors: kIo for recoverable problems (the disk, a moved folder); kInvalid for permanent ones: damage,
  /// or another file in place of the database.
  Result<Unit> watch(std::size_t rows);
  /// True if run.db was deleted while it is open here: write_again() can restore it.
  bool deleted() const { return files_.deleted(); }
  /// Restores the deleted run.db with everything that was committed, and closes it; open it again
  /// afterwards. Errors (kIo): the disk refuses. Then `run` stays open and nothing is lost yet.
  static Result<Unit> write_again(std::unique_ptr<RunWriter>& run);

 private:
  RunWriter(std::unique_ptr<RunConnection> connection, Durability durability);
  void begin();
  /// Notes whether another program wrote to the database or (`log_too`) to its write-ahead log. Between two
  /// transactions this process does not change the log.
  void note_writes(bool log_too) { suspicious_ = suspicious_ || files_.changed(log_too); }
  /// Checks that the files are in place; if another program wrote to them, verifies everything.
  Result<Unit> check_files(bool log_too);

  const Durability durability_;
  std::unique_ptr<SQLite::Transaction> transaction_;
  std::unique_ptr<SQLite::Statement> insert_episode_, insert_measurement_, insert_update_, insert_checkpoint_;
  std::uint64_t chain_ = 0;
  std::uint64_t last_seq_ = 0, last_update_ = 0;
  std::size_t rows_ = 0;  // Rows since the last commit.
  RunFiles files_;
  std::unique_ptr<Patrol> patrol_;  // Made by the first watch().
  bool suspicious_ = false;         // Another program wrote to the files after the last verification.
};

}  // namespace emplace::record
