#include "record/run_db.h"

#include <SQLiteCpp/Backup.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "record/integrity.h"
#include "record/packed.h"
#include "record/run_db_state.h"
#include "record/schema.h"
#include "record/seal.h"

namespace emplace::record {
namespace {

/// SQLite's locks and shared memory do not hold on these.
bool on_network(const std::filesystem::path& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return false;
  constexpr std::array<unsigned long, 9> kNetwork{
      0x6969 /* NFS */,        0xff534d42 /* CIFS */, 0x517b /* SMB */,
      0x0bd00bd0 /* Lustre */, 0x00c36400 /* Ceph */, 0x47504653 /* GPFS */,
      0x5346414f /* AFS */,    0xfe534d42 /* SMB2 */, 0x01021997 /* 9P */};
  return std::find(kNetwork.begin(), kNetwork.end(), static_cast<unsigned long>(info.f_type)) !=
         kNetwork.end();
}

template <class T>
std::string joined(const std::vector<T>& numbers) {
  std::string text;
  for (const T number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

}  // namespace

namespace {

/// What only real executors have; NULL takes no room.
void bind_real(SQLite::Statement& m, const MeasurementRow& measured) {
  for (const int column : {14, 15, 16}) m.bind(column);
  if (!measured.failure.empty()) m.bind(14, measured.failure);
  if (measured.label != MeasurementLabel::kSimulated) m.bind(15, std::string{label_name(measured.label)});
  if (!measured.samples_s.empty())
    m.bindNoCopy(16, measured.samples_s.data(), static_cast<int>(measured.samples_s.size() * sizeof(double)));
}

}  // namespace

std::int64_t episode_bytes(std::span<const std::byte> placements, std::size_t count,
                           std::span<const std::byte> actions, std::size_t devices) {
  // Measured on runs of 100,000 episodes: keys, names and hashes of the rows, what SQLite keeps around them
  // and leaves free, and an index entry per measurement.
  constexpr std::size_t kEpisode = 230, kMeasurement = 120, kPeak = 12, kUpdateOfEpisode = 60;
  const std::size_t bytes = pack_placements(placements, count).size() + compress_zstd(actions, 1).size() +
                            kEpisode + kUpdateOfEpisode +
                            count * (kMeasurement + kPeak * devices + sizeof(float));
  return static_cast<std::int64_t>(bytes);
}

void RunDb::State::prepare(Durability wanted) {
  durability = wanted;
  db.exec("PRAGMA journal_mode=WAL");
  // NORMAL waits before the log is folded into the database, and so never leaves a damaged one.
  db.exec(durability == Durability::kDisk ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  insert_episode =
      std::make_unique<SQLite::Statement>(db, "INSERT INTO episodes VALUES(?,?,?,?,?,?,?,?,?,?,?)");
  insert_measurement = std::make_unique<SQLite::Statement>(
      db, "INSERT INTO measurements VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert_update =
      std::make_unique<SQLite::Statement>(db, "INSERT INTO updates VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert_checkpoint =
      std::make_unique<SQLite::Statement>(db, "INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?,?,?)");
  SQLite::Statement last{db, "SELECT seq, chain FROM episodes ORDER BY seq DESC LIMIT 1"};
  if (last.executeStep()) {
    last_seq = back(last.getColumn(0).getInt64());
    chain = back(last.getColumn(1).getInt64());
  }
  SQLite::Statement updates{db, "SELECT COALESCE(MAX(\"update\"), 0) FROM updates"};
  updates.executeStep();
  last_update = back(updates.getColumn(0).getInt64());
  files = std::make_unique<RunFiles>(directory, lock.folder());
}

bool may_pass(int sqlite_code) {
  constexpr std::array kOfTheMachine{SQLITE_BUSY,  SQLITE_LOCKED, SQLITE_NOMEM,
                                     SQLITE_IOERR, SQLITE_FULL,   SQLITE_CANTOPEN};
  constexpr int kPrimary = 0xff;
  return std::find(kOfTheMachine.begin(), kOfTheMachine.end(), sqlite_code & kPrimary) != kOfTheMachine.end();
}

bool may_pass(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const SQLite::Exception*>(&thrown);
  if (error == nullptr) return dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
  return may_pass(error->getErrorCode());
}

Error RunDb::State::failure(const std::exception& thrown) const {
  const auto* const error = dynamic_cast<const SQLite::Exception*>(&thrown);
  // What is not SQLite's is thrown where a column does not hold what this program writes.
  const bool damaged =
      error == nullptr ? !may_pass(thrown)
                       : error->getErrorCode() == SQLITE_CORRUPT || error->getErrorCode() == SQLITE_NOTADB;
  if (!damaged) return io(directory, std::string{"run.db: "} + thrown.what());
  return invalid(printable(directory.string()) + ": run.db", "is damaged: " + printable(thrown.what()),
                 kSalvageIt);
}

Result<Unit> RunDb::State::check_files() {
  if (auto there = files->check(); !there) return there;
  suspicious = suspicious || files->changed(/*log_too=*/!transaction);
  if (!suspicious) return Unit{};
  // What this connection has in memory would hide it: read from the file, by another one.
  auto reader = RunDb::open(directory, false);
  if (!reader) return reader.error();
  if (auto whole = (*reader)->verify(); !whole) return whole;
  suspicious = false;
  files->remember();
  return Unit{};
}

RunDb::RunDb(std::unique_ptr<State> state) : state_{std::move(state)} {}
RunDb::~RunDb() = default;

namespace {

Error on_network_error(const std::filesystem::path& directory) {
  return io(directory, "lies on a network file system, where a database is not safe; use a local --run-dir");
}

void insert_facts(SQLite::Database& db, const RunFacts& facts) {
  SQLite::Statement insert{db, "INSERT INTO runs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  SealedRow row{insert};
  row << std::int64_t{kSchemaVersion};
  for (const std::string* text : {&facts.software_version, &facts.host, &facts.graph, &facts.graph_sha256,
                                  &facts.devices_json, &facts.config_toml, &facts.method})
    row << *text;
  row << sql(facts.seed) << facts.started_wall_ns << std::int64_t{facts.num_ops}
      << std::int64_t{facts.num_devices} << facts.run_id << facts.parent << facts.host_facts;
  row.insert();
}

void insert_graphs(SQLite::Database& db, const std::vector<GraphRow>& graphs) {
  SQLite::Statement insert{db, "INSERT INTO graphs VALUES(?,?,?,?,?,?,?,?,?,?)"};
  for (const GraphRow& g : graphs) {
    const Bytes content = compress_zstd(g.content);
    SealedRow row{insert};
    row << g.sha256 << g.name << g.file << std::int64_t{g.num_ops} << content << g.devices_toml << g.reserve
        << g.lower_bound_s << g.bound;
    row.insert();
  }
}

void insert_baselines(SQLite::Database& db, const std::vector<BaselineRow>& baselines) {
  SQLite::Statement insert{db, "INSERT INTO baselines VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  for (const BaselineRow& b : baselines) {
    const std::string peaks = joined(b.peak_bytes);
    const Bytes placement = b.placement.empty() ? Bytes{} : pack_placements(b.placement, 1);
    SealedRow row{insert};
    row << b.graph_sha256 << b.method << std::int64_t{b.found} << std::int64_t{b.valid} << b.step_time_s
        << b.bytes_over << b.bytes_moved << peaks << sql(b.evaluations) << b.wall_s << b.note << placement;
    row.insert();
  }
}

/// As SQLite takes it where options follow.
std::string uri(const std::filesystem::path& file) {
  std::string text = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#') {
      text += {'%', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<RunDb>> RunDb::create(const std::filesystem::path& directory, const RunFacts& facts,
                                             const std::vector<GraphRow>& graphs,
                                             const std::vector<BaselineRow>& baselines) {
  if (auto made = make_private_folder(directory); !made) return made.error();
  if (std::filesystem::exists(directory / "run.db")) {
    return invalid(printable(directory.string()), "holds a run already",
                   "go on with it by --resume, or choose another --run-dir");
  }
  if (on_network(directory)) return on_network_error(directory);
  try {
    auto state =
        std::make_unique<State>(directory, (directory / "run.db").string(),
                                SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, FolderLock{directory, true});
    state->db.exec("PRAGMA journal_mode=WAL");
    SQLite::Transaction transaction{state->db};
    make_schema(state->db);
    insert_facts(state->db, facts);
    insert_graphs(state->db, graphs);
    insert_baselines(state->db, baselines);
    transaction.commit();
    // The run as it began, page by page: what never changes is there once more if run.db is damaged.
    SQLite::Database initial{(directory / "initial.db").string(),
                             SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
    SQLite::Backup{initial, state->db}.executeStep(-1);
    // SQLite syncs its files and their folder, not the folder's own name.
    if (auto synced = sync_folders(directory); !synced) return synced.error();
    state->prepare(Durability::kDisk);
    return std::unique_ptr<RunDb>{new RunDb{std::move(state)}};
  } catch (const std::exception& error) {
    return io(directory, std::string{"the run database cannot be made: "} + error.what());
  }
}

Result<std::unique_ptr<RunDb>> RunDb::open(const std::filesystem::path& directory, bool writable,
                                           Durability durability) {
  return open_as(directory, writable ? Access::kWrite : Access::kRead, durability);
}

Result<Unit> RunDb::check_folder(const std::filesystem::path& directory) {
  std::error_code none;
  std::filesystem::path there = std::filesystem::absolute(directory, none);
  while (!std::filesystem::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  if (on_network(there)) return on_network_error(directory);
  return Unit{};
}

bool RunDb::is_being_written(const std::filesystem::path& directory) {
  std::error_code none;
  return std::filesystem::is_directory(directory, none) && !FolderLock{directory, false}.taken();
}

Result<std::unique_ptr<RunDb>> RunDb::open_quiet(const std::filesystem::path& directory) {
  return open_as(directory, Access::kQuiet, Durability::kDisk);
}

Result<std::unique_ptr<RunDb>> RunDb::open_to_look(const std::filesystem::path& directory) {
  return is_being_written(directory) ? open(directory, false) : open_quiet(directory);
}

namespace {

/// Writes the whole log into the database file and waits for the disk. After a failed sync the kernel shows
/// pages that the disk does not have and will not be given again. Such a transaction may stand in the log as
/// committed, and a power cut would take it and all that is appended behind it. Errors: kIo, also while
/// somebody reads from the log.
Result<Unit> settle_log(SQLite::Database& db, const std::filesystem::path& directory) {
  constexpr int kBriefly_ms = 100, kAsBefore_ms = 5000;  // Who opens a run to write it tries again.
  try {
    db.setBusyTimeout(kBriefly_ms);
    SQLite::Statement checkpoint{db, "PRAGMA main.wal_checkpoint(TRUNCATE)"};
    const bool done = checkpoint.executeStep() && checkpoint.getColumn(0).getInt() == 0;
    db.setBusyTimeout(kAsBefore_ms);
    if (done) return Unit{};
    return io(directory, "run.db: a reader holds on to its log (run.db-wal); wait for its end");
  } catch (const SQLite::Exception& refused) {
    return io(directory,
              std::string{"run.db: its log cannot be written into it and synced: "} + refused.what());
  }
}

/// A log with a damaged frame is recovered up to that frame. What was acknowledged behind it is gone, and
/// must not be recorded as something else.
Result<Unit> check_head(std::uint64_t last_seq, std::uint64_t last_update,
                        const std::filesystem::path& directory) {
  const Acknowledged acknowledged = acknowledged_in(directory);
  const bool of_updates = last_seq >= acknowledged.episodes;
  if (of_updates && last_update >= acknowledged.updates) return Unit{};
  const std::uint64_t there = of_updates ? last_update : last_seq;
  const std::uint64_t all = of_updates ? acknowledged.updates : acknowledged.episodes;
  return invalid(printable(directory.string()) + ": run.db",
                 "the record is shortened: " + std::to_string(there) +
                     (of_updates ? " updates of " : " episodes of ") + std::to_string(all),
                 kSalvageIt);
}

}  // namespace

Result<std::unique_ptr<RunDb>> RunDb::open_as(const std::filesystem::path& directory, Access access,
                                              Durability durability) {
  const std::filesystem::path file = directory / "run.db";
  const std::string where = printable(directory.string());
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable))
    return Error{Errc::kIo,
                 where + (unreadable ? ": cannot be read: " + unreadable.message() : ": holds no run")};
  if (access == Access::kWrite && on_network(directory)) return on_network_error(directory);
  FolderLock lock;
  if (access != Access::kRead) {
    lock = FolderLock{directory, access == Access::kWrite};
    if (!lock.taken()) {
      if (access == Access::kQuiet)
        return invalid(where, "is still being written", "end the run first, or wait for its end");
      if (is_being_written(directory))
        return invalid(where, "is being written by another process", "let that one end");
      return Error{Errc::kIo,
                   where + ": is being read by a process that wants it to stay as it is; wait for its end"};
    }
  }
  try {
    // Where no log is left to be read, not even SQLite's own files beside it are made.
    std::error_code none;
    const auto wal = std::filesystem::file_size(directory / "run.db-wal", none);
    const bool untouched = access == Access::kQuiet && (none || wal == 0);
    auto state = std::make_unique<State>(
        directory, untouched ? uri(file) + "?immutable=1" : file.string(),
        access == Access::kWrite ? SQLite::OPEN_READWRITE : SQLite::OPEN_READONLY | SQLite::OPEN_URI,
        std::move(lock));
    const auto version = schema_version(state->db, directory);
    if (!version) return version.error();
    if (auto whole = check_schema(state->db, *version, directory); !whole) return whole.error();
    if (access == Access::kWrite && durability == Durability::kDisk)
      if (auto settled = settle_log(state->db, directory); !settled) return settled.error();
    if (*version < kSchemaVersion)
      access == Access::kWrite ? migrate(state->db, *version) : shadow(state->db, *version);
    if (access == Access::kWrite) {
      state->prepare(durability);
      if (auto whole = check_head(state->last_seq, state->last_update, directory); !whole)
        return whole.error();
    }
    return std::unique_ptr<RunDb>{new RunDb{std::move(state)}};
  } catch (const std::exception& error) {
    if (may_pass(error)) return io(directory, std::string{"run.db cannot be opened: "} + error.what());
    return invalid(printable(directory.string()), "run.db is damaged: " + printable(error.what()),
                   kSalvageIt);
  }
}

Result<bool> RunDb::add_episode(const EpisodeRow& row, const std::vector<MeasurementRow>& measurements) {
  State& s = *state_;
  const Bytes placements = pack_placements(row.placements, row.count),
              actions = compress_zstd(row.actions, 1);
  const std::uint64_t chain = chain_link(s.chain, row, placements, actions, measurements);
  try {
    s.begin();
    s.db.exec("SAVEPOINT episode");  // All of it or nothing.
    SQLite::Statement& e = *s.insert_episode;
    e.reset();
    e.bind(1, sql(row.seq));
    e.bind(2, sql(row.episode));
    e.bind(3, row.controller);
    e.bind(4, sql(row.policy_version));
    e.bind(5, row.count);
    e.bindNoCopy(6, placements.data(), static_cast<int>(placements.size()));
    e.bindNoCopy(7, actions.data(), static_cast<int>(actions.size()));
    e.bind(8, sql(chain));
    e.bind(9, row.graph_sha256);
    e.bind(10, sql(row.placement_id));
    e.bind(11, row.wall_ns);
    e.exec();
    SQLite::Statement& m = *s.insert_measurement;
    for (const MeasurementRow& measured : measurements) {
      m.reset();
      m.bind(1, sql(measured.placement_id));
      m.bind(2, sql(measured.episode));
      m.bind(3, measured.number);
      m.bind(4, measured.valid ? 1 : 0);
      m.bind(5, measured.step_time_s);
      m.bind(6, measured.bytes_over);
      m.bind(7, measured.bytes_moved);
      m.bind(8, joined(measured.peak_bytes));
      m.bind(9, measured.host);
      m.bind(10, measured.executor);
      m.bind(11, measured.executor_kind);
      m.bind(12, measured.attempt);
      m.bind(13, measured.synthetic_share);
      bind_real(m, measured);
      m.exec();
    }
    s.db.exec("RELEASE episode");
  } catch (const SQLite::Exception& error) {
    s.insert_episode->tryReset();
    s.insert_measurement->tryReset();
    s.db.tryExec("ROLLBACK TO episode");
    s.db.tryExec("RELEASE episode");
    if (error.getErrorCode() != SQLITE_CONSTRAINT) return s.failure(error);
    const auto counted = has_episode(row.episode);
    if (!counted) return counted.error();
    if (*counted) return false;
    // Two episodes with one placement, or one whose own row is damaged.
    if (auto reader = open(s.directory, false))
      if (auto whole = (*reader)->verify(); !whole) return whole.error();
    return invalid("episode " + std::to_string(row.episode),
                   "claims placements from " + std::to_string(row.placement_id) +
                       " on, and another episode has one of them",
                   "the run has two samplers with the same numbers");
  }
  s.chain = chain;
  s.last_seq = row.seq;
  s.rows += 1 + measurements.size();
  return true;
}

Result<Unit> RunDb::add_update(const UpdateRow& update) {
  return state_->guarded([&] {
    state_->begin();
    const std::string episodes = joined(update.episodes);
    const auto* const first = reinterpret_cast<const std::byte*>(update.advantages.data());
    const Bytes advantages(first, first + update.advantages.size() * sizeof(float));
    SealedRow row{*state_->insert_update};
    row << sql(update.update) << sql(update.policy_version) << episodes << update.staleness_mean
        << sql(update.staleness_max) << update.gradient_norm << update.loss << update.entropy
        << update.learning_rate << update.wall_s << update.parameters_sha256 << advantages
        << update.log_probability << update.divergence << update.wall_ns;
    row.insert();
    state_->last_update = std::max(state_->last_update, update.update);
    ++state_->rows;
    return Unit{};
  });
}

Result<Unit> RunDb::add_checkpoint(const CheckpointRow& checkpoint) {
  return state_->guarded([&] {
    state_->begin();
    const Bytes parameters = compress_zstd(checkpoint.parameters, 1),
                optimizer = compress_zstd(checkpoint.optimizer, 1);
    SealedRow row{*state_->insert_checkpoint};
    row << sql(checkpoint.policy_version) << sql(checkpoint.update) << checkpoint.sha256 << parameters
        << optimizer;
    row.insert();
    ++state_->rows;
    return Unit{};
  });
}

Result<Unit> RunDb::drop_checkpoints(const std::vector<std::uint64_t>& updates) {
  return state_->guarded([&] {
    if (updates.empty()) return Unit{};
    state_->begin();
    SQLite::Statement drop{state_->db, "DELETE FROM checkpoints WHERE \"update\" = ?"};
    for (const std::uint64_t update : updates) {
      drop.reset();
      drop.bind(1, sql(update));
      state_->rows += static_cast<std::size_t>(drop.exec());
    }
    return Unit{};
  });
}

Result<Unit> RunDb::add_remeasured(RemeasureSession& session, const std::vector<RemeasuredRow>& rows) {
  auto added = state_->guarded([&] {
    state_->begin();
    SQLite::Statement last{state_->db, "SELECT COALESCE(MAX(session), 0) FROM remeasure_sessions"};
    last.executeStep();
    session.session = back(last.getColumn(0).getInt64()) + 1;
    SQLite::Statement insert{state_->db, "INSERT INTO remeasure_sessions VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"};
    insert.bind(1, sql(session.session));
    insert.bind(2, session.executor_kind);
    insert.bind(3, session.host);
    insert.bind(4, session.started_wall_ns);
    insert.bind(5, sql(session.count));
    int at = 6;
    for (const double number : {session.spearman, session.kendall, session.error_mean, session.error_median,
                                session.error_p95, session.error_max})
      insert.bind(at++, number);
    insert.bind(at, sql(session.top5_overlap));
    insert.exec();
    SQLite::Statement one{state_->db, "INSERT INTO remeasured VALUES(?,?,?,?,?,?,?,?)"};
    for (const RemeasuredRow& row : rows) {
      one.reset();
      one.bind(1, sql(session.session));
      one.bind(2, sql(row.placement_id));
      one.bind(3, row.graph_sha256);
      one.bind(4, row.logged_s);
      one.bind(5, row.valid ? 1 : 0);
      one.bind(6, row.step_time_s);
      one.bind(7, row.synthetic_share);
      one.bind(8, row.error);
      one.exec();
    }
    state_->rows += 1 + rows.size();
    return Unit{};
  });
  if (!added) return added.error();
  return commit();
}

Result<Unit> RunDb::add_actor(const std::string& name, const std::string& host, std::int64_t wall_ns) {
  return state_->guarded([&] {
    state_->begin();
    SQLite::Statement a{state_->db, "INSERT INTO actors VALUES(?,?,?)"};
    a.bind(1, name);
    a.bind(2, host);
    a.bind(3, wall_ns);
    a.exec();
    ++state_->rows;
    return Unit{};
  });
}

Result<Unit> RunDb::note_actor(const std::string& name, const std::string& host, std::int64_t wall_ns) {
  return state_->guarded([&] {
    state_->begin();
    SQLite::Statement a{state_->db,
                        "INSERT INTO actors SELECT ?1, ?2, ?3 WHERE NOT EXISTS "
                        "(SELECT 1 FROM actors WHERE name = ?1 AND host = ?2)"};
    a.bind(1, name);
    a.bind(2, host);
    a.bind(3, wall_ns);
    state_->rows += static_cast<std::uint64_t>(a.exec());
    return Unit{};
  });
}

Result<Unit> RunDb::commit() {
  State& s = *state_;
  if (!s.transaction) return Unit{};
  if (auto there = s.check_files(); !there) return there;
  auto done = s.guarded([&] {
    s.transaction->commit();
    return Unit{};
  });
  s.transaction.reset();
  s.rows = 0;
  if (!done) return done;
  s.files->remember();
  // Kept apart from the WAL, so that a WAL cut short shows. Where a power cut may shorten it, that is no
  // damage.
  if (s.durability == Durability::kDisk)
    if (auto kept = s.files->write_head(s.last_seq, s.last_update); !kept) return kept;
  return s.files->check();
}

Result<Unit> RunDb::watch(std::size_t rows) {
  State& s = *state_;
  if (auto there = s.check_files(); !there) return there;
  const std::string where = printable(s.directory.string()) + ": run.db";
  auto checked = s.guarded([&] {
    if (!s.patrol) s.patrol = std::make_unique<Patrol>(s.directory / "run.db");
    return s.patrol->next(where, rows);
  });
  return checked ? *checked : Result<Unit>{checked.error()};
}

bool RunDb::deleted() const { return state_->files && state_->files->deleted(); }

namespace {

/// Waits until a file, or a folder's entries, are on disk.
Result<Unit> sync_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int code = errno;
  if (fd >= 0) ::close(fd);
  return synced ? Result<Unit>{Unit{}}
                : Error{Errc::kIo, printable(path.string()) + ": " + std::strerror(code)};
}

}  // namespace

Result<Unit> RunDb::write_again(std::unique_ptr<RunDb>& db) {
  const std::filesystem::path directory = db->state_->directory, again = directory / "run.db.again";
  const auto refused = [&](const Error& why) {
    std::error_code ignored;
    std::filesystem::remove(again, ignored);
    return io(directory, "run.db was deleted, and cannot be written again: " + why.context);
  };
  std::error_code failure;
  std::filesystem::remove(again, failure);
  auto copied = db->state_->guarded([&] {
    db->state_->transaction.reset();
    SQLite::Statement copy{db->state_->db, "VACUUM INTO ?"};
    copy.bind(1, again.string());
    copy.executeStep();
    return Unit{};
  });
  if (!copied) return refused(copied.error());
  if (auto synced = sync_file(again); !synced) return refused(synced.error());
  // The log of the deleted file must not meet the new one.
  for (const char* rest : {"run.db-wal", "run.db-shm"}) std::filesystem::remove(directory / rest, failure);
  std::filesystem::rename(again, directory / "run.db", failure);
  if (failure) return refused(Error{Errc::kIo, failure.message()});
  db.reset();
  return sync_file(directory);
}

Result<std::uint64_t> RunDb::chain_at(std::uint64_t seq) {
  return state_->guarded([&]() -> std::uint64_t {
    SQLite::Statement q{state_->db, "SELECT chain FROM episodes WHERE seq = ?"};
    q.bind(1, sql(seq));
    return q.executeStep() ? back(q.getColumn(0).getInt64()) : 0;
  });
}

std::uint64_t RunDb::chain() const { return state_->chain; }

std::size_t RunDb::uncommitted_rows() const { return state_->rows; }

}  // namespace emplace::record
