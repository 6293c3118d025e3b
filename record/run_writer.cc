#include "record/run_writer.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/text/words.h"
#include "record/store/columns.h"
#include "record/store/integrity.h"
#include "record/store/packed.h"
#include "record/store/row_writers.h"
#include "record/store/run_connection.h"
#include "record/store/run_folder.h"
#include "record/store/schema.h"

namespace emplace::record {
namespace {

/// Writes the whole write-ahead log into the database file and syncs it. Reason: after a failed sync the
/// page cache shows pages that are not on disk and will not be written again. A transaction in such pages
/// looks committed, and a power failure would lose it and everything after it. Errors: kIo, also while a
/// reader uses the log.
Result<Unit> flush_log(SQLite::Database& db, const std::filesystem::path& directory) {
  constexpr int kShortTimeout_ms = 100,
                kBusyTimeout_ms = 5000;  // Opening for writing is retried by the callers.
  try {
    db.setBusyTimeout(kShortTimeout_ms);
    SQLite::Statement checkpoint{db, "PRAGMA main.wal_checkpoint(TRUNCATE)"};
    const bool done = checkpoint.executeStep() && checkpoint.getColumn(0).getInt() == 0;
    db.setBusyTimeout(kBusyTimeout_ms);
    if (done) return Unit{};
    return io_error(directory, "run.db: a reader uses its log (run.db-wal); wait until it has finished");
  } catch (const SQLite::Exception& refused) {
    return io_error(directory, std::string{"run.db: cannot write its log into it: "} + refused.what());
  }
}

/// SQLite recovers a log with a damaged frame up to that frame. Acknowledged rows after it are lost; their
/// numbers must not be recorded again with other content.
Result<Unit> check_head(std::uint64_t last_seq, std::uint64_t last_update,
                        const std::filesystem::path& directory) {
  const Acknowledged acknowledged = acknowledged_in(directory);
  const std::string where = printable_path(directory) + ": run.db";
  if (last_seq < acknowledged.episodes) return shortened(where, last_seq, acknowledged.episodes, "episodes");
  if (last_update < acknowledged.updates)
    return shortened(where, last_update, acknowledged.updates, "updates");
  return Unit{};
}

/// Syncs a file, or the entries of a folder.
Result<Unit> sync_file(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.open() && ::fsync(file.get()) == 0) return Unit{};
  const int code = errno;  // The path's text allocates, which may change it.
  return Error{Errc::kIo, printable_path(path) + ": " + std::generic_category().message(code)};
}

}  // namespace

RunWriter::RunWriter(std::unique_ptr<RunConnection> opened, Durability durability)
    : RunReader{std::move(opened)},
      durability_{durability},
      files_{connection().directory, connection().lock.folder()} {
  SQLite::Database& db = connection().db;
  db.exec("PRAGMA journal_mode=WAL");
  // NORMAL syncs before the log is written back to the database, and so never leaves a damaged database.
  db.exec(durability == Durability::kDisk ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  insert_episode_ = std::make_unique<SQLite::Statement>(db, kInsertEpisode);
  insert_measurement_ = std::make_unique<SQLite::Statement>(db, kInsertMeasurement);
  insert_update_ = std::make_unique<SQLite::Statement>(db, kInsertUpdate);
  insert_checkpoint_ = std::make_unique<SQLite::Statement>(db, kInsertCheckpoint);
  SQLite::Statement last{db, "SELECT seq, chain FROM episodes ORDER BY seq DESC LIMIT 1"};
  if (last.executeStep()) {
    last_seq_ = back(last.getColumn(0).getInt64());
    chain_ = back(last.getColumn(1).getInt64());
  }
  SQLite::Statement updates{db, "SELECT COALESCE(MAX(\"update\"), 0) FROM updates"};
  updates.executeStep();
  last_update_ = back(updates.getColumn(0).getInt64());
  files_.remember();
}

RunWriter::~RunWriter() = default;

Result<std::unique_ptr<RunWriter>> RunWriter::create(const std::filesystem::path& directory,
                                                     const RunFacts& facts,
                                                     const std::vector<GraphRow>& graphs,
                                                     const std::vector<HeuristicRow>& heuristics) {
  EMPLACE_TRY(make_private_folder(directory));
  if (std::filesystem::exists(directory / "run.db")) {
    return invalid(printable_path(directory), "holds a run already",
                   "continue it with --resume, or choose another --run-dir");
  }
  EMPLACE_TRY(check_folder(directory));
  try {
    auto connection = RunConnection::make(directory);
    SQLite::Database& db = connection->db;
    db.exec("PRAGMA journal_mode=WAL");
    SQLite::Transaction transaction{db};
    make_schema(db);
    insert_header(db, facts, graphs, heuristics);
    transaction.commit();
    // A copy of the constant part of the run, made at its start; salvage uses it if run.db is damaged.
    SQLite::Database initial{(directory / "initial.db").string(),
                             SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
    SQLite::Backup{initial, db}.executeStep(-1);
    // SQLite syncs its files and their folder, but not the name of the folder.
    EMPLACE_TRY(sync_folders(directory));
    return std::unique_ptr<RunWriter>{new RunWriter{std::move(connection), Durability::kDisk}};
  } catch (const std::exception& thrown) {
    return io_error(directory, std::string{"cannot create the run database: "} + thrown.what());
  }
}

Result<std::unique_ptr<RunWriter>> RunWriter::open(const std::filesystem::path& directory,
                                                   Durability durability) {
  EMPLACE_TRY_ASSIGN(auto opened, RunConnection::open(directory, RunConnection::Access::kWrite));
  try {
    SQLite::Database& db = opened->db;
    if (durability == Durability::kDisk) EMPLACE_TRY(flush_log(db, directory));
    if (opened->version < kSchemaVersion) migrate(db, opened->version);
    auto writer = std::unique_ptr<RunWriter>{new RunWriter{std::move(opened), durability}};
    EMPLACE_TRY(check_head(writer->last_seq_, writer->last_update_, directory));
    return writer;
  } catch (const std::exception& thrown) {
    return opening_error(directory, thrown);
  }
}

void RunWriter::begin() {
  if (transaction_) return;
  note_writes(/*log_too=*/true);
  transaction_ = std::make_unique<SQLite::Transaction>(connection().db);
}

Result<bool> RunWriter::add_episode(const EpisodeRow& row, const std::vector<MeasurementRow>& measurements) {
  const Bytes placements = pack_placements(row.placements, row.count),
              actions = compress_zstd(row.actions, 1);
  const std::uint64_t chain = chain_link(chain_, row, placements, actions, measurements);
  RunConnection& run = connection();
  try {
    begin();
    // The episode and its measurements are inserted together or not at all.
    run.db.exec("SAVEPOINT episode");
    insert_episode(*insert_episode_, row, placements, actions, chain);
    for (const MeasurementRow& measured : measurements) insert_measurement(*insert_measurement_, measured);
    run.db.exec("RELEASE episode");
  } catch (const SQLite::Exception& error) {
    insert_episode_->tryReset();
    insert_measurement_->tryReset();
    run.db.tryExec("ROLLBACK TO episode");
    run.db.tryExec("RELEASE episode");
    if (error.getErrorCode() != SQLITE_CONSTRAINT) return database_error(run.directory, error);
    EMPLACE_TRY_ASSIGN(const auto counted, log().has_episode(row.episode));
    if (counted) return false;
    // Either two episodes have the same placement, or the row of the other episode is damaged.
    if (auto reader = RunReader::open(run.directory, Reading::kInProgress)) EMPLACE_TRY((*reader)->verify());
    return invalid(fmt::format("episode {}", row.episode),
                   fmt::format("another episode has one of its placements (from {} on)", row.placement_id),
                   "two samplers of the run use the same numbers");
  }
  chain_ = chain;
  last_seq_ = row.seq;
  rows_ += 1 + measurements.size();
  return true;
}

Result<Unit> RunWriter::add_update(const UpdateRow& update) {
  return connection().guarded([&] {
    begin();
    insert_update(*insert_update_, update);
    last_update_ = std::max(last_update_, update.update);
    ++rows_;
    return Unit{};
  });
}

Result<Unit> RunWriter::add_checkpoint(const CheckpointRow& checkpoint) {
  return connection().guarded([&] {
    begin();
    insert_checkpoint(*insert_checkpoint_, checkpoint);
    ++rows_;
    return Unit{};
  });
}

Result<Unit> RunWriter::drop_checkpoints(const std::vector<std::uint64_t>& updates) {
  return connection().guarded([&] {
    if (updates.empty()) return Unit{};
    begin();
    SQLite::Statement drop{connection().db, "DELETE FROM checkpoints WHERE \"update\" = ?"};
    for (const std::uint64_t update : updates) {
      drop.reset();
      drop.bind(1, sql(update));
      rows_ += static_cast<std::size_t>(drop.exec());
    }
    return Unit{};
  });
}

Result<Unit> RunWriter::add_remeasured(RemeasureSession& session, const std::vector<RemeasuredRow>& rows) {
  auto added = connection().guarded([&] {
    begin();
    insert_remeasured(connection().db, session, rows);
    rows_ += 1 + rows.size();
    return Unit{};
  });
  if (!added) return added.error();
  return commit();
}

Result<Unit> RunWriter::add_actor(const std::string& name, const std::string& host, std::int64_t wall_ns) {
  return connection().guarded([&] {
    begin();
    SQLite::Statement a{connection().db, "INSERT INTO actors VALUES(?,?,?)"};
    SQLite::bind(a, name, host, wall_ns);
    a.exec();
    ++rows_;
    return Unit{};
  });
}

Result<Unit> RunWriter::note_actor(const std::string& name, const std::string& host, std::int64_t wall_ns) {
  return connection().guarded([&] {
    begin();
    SQLite::Statement a{connection().db,
                        "INSERT INTO actors SELECT ?1, ?2, ?3 WHERE NOT EXISTS "
                        "(SELECT 1 FROM actors WHERE name = ?1 AND host = ?2)"};
    SQLite::bind(a, name, host, wall_ns);
    rows_ += static_cast<std::uint64_t>(a.exec());
    return Unit{};
  });
}

Result<Unit> RunWriter::commit() {
  if (!transaction_) return Unit{};
  EMPLACE_TRY(check_files(/*log_too=*/false));
  auto done = connection().guarded([&] {
    transaction_->commit();
    return Unit{};
  });
  transaction_.reset();
  rows_ = 0;
  if (!done) return done;
  files_.remember();
  // Stored outside the WAL, so that a truncated WAL is detected. With kProcess durability a power failure
  // may truncate it, which is not damage.
  if (durability_ == Durability::kDisk) EMPLACE_TRY(files_.write_head(last_seq_, last_update_));
  return files_.check();
}

Result<Unit> RunWriter::check_files(bool log_too) {
  const std::filesystem::path& directory = connection().directory;
  EMPLACE_TRY(files_.check());
  note_writes(log_too);
  if (!suspicious_) return Unit{};
  // Uses a second connection that reads the file: the cache of this connection would hide changes.
  EMPLACE_TRY_ASSIGN(const auto reader, RunReader::open(directory, Reading::kInProgress));
  EMPLACE_TRY(reader->verify());
  suspicious_ = false;
  files_.remember();
  return Unit{};
}

Result<Unit> RunWriter::watch(std::size_t rows) {
  EMPLACE_TRY(check_files(/*log_too=*/!transaction_));
  const std::filesystem::path& directory = connection().directory;
  try {
    if (!patrol_) patrol_ = std::make_unique<Patrol>(directory / "run.db");
    return patrol_->next(printable_path(directory) + ": run.db", rows);
  } catch (const std::exception& thrown) {
    return database_error(directory, thrown);
  }
}

Result<Unit> RunWriter::write_again(std::unique_ptr<RunWriter>& run) {
  const std::filesystem::path directory = run->connection().directory, again = directory / "run.db.again";
  const auto refused = [&](const Error& why) {
    std::error_code ignored;
    std::filesystem::remove(again, ignored);
    return io_error(directory, "run.db was deleted and cannot be restored: " + why.context);
  };
  std::error_code failure;
  std::filesystem::remove(again, failure);
  auto copied = run->connection().guarded([&] {
    run->transaction_.reset();
    SQLite::Statement copy{run->connection().db, "VACUUM INTO ?"};
    copy.bind(1, again.string());
    copy.executeStep();
    return Unit{};
  });
  if (!copied) return refused(copied.error());
  if (auto synced = sync_file(again); !synced) return refused(synced.error());
  // The log of the deleted file must not be applied to the new file.
  for (const char* rest : {"run.db-wal", "run.db-shm"}) std::filesystem::remove(directory / rest, failure);
  std::filesystem::rename(again, directory / "run.db", failure);
  if (failure) return refused(Error{Errc::kIo, failure.message()});
  run.reset();
  return sync_file(directory);
}

}  // namespace emplace::record
