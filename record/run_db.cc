#include "record/run_db.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

#include "record/run_db_state.h"

namespace emplace::record {
namespace {

constexpr int kSchemaVersion = 3;

constexpr const char* kSchema = R"sql(
CREATE TABLE runs(schema_version INTEGER, software_version TEXT, host TEXT, graph TEXT, graph_sha256 TEXT, devices TEXT,
  config TEXT, method TEXT, seed INTEGER, started_wall_ns INTEGER, num_ops INTEGER, num_devices INTEGER);
CREATE TABLE actors(name TEXT, host TEXT, started_wall_ns INTEGER);
CREATE TABLE episodes(seq INTEGER PRIMARY KEY, episode INTEGER NOT NULL UNIQUE, controller INTEGER, policy_version INTEGER,
  count INTEGER, placements BLOB, actions BLOB, chain INTEGER NOT NULL, graph_sha256 TEXT, placement_id INTEGER);
CREATE TABLE measurements(placement_id INTEGER PRIMARY KEY, episode INTEGER NOT NULL, number INTEGER, valid INTEGER, step_time_s REAL,
  bytes_over INTEGER, bytes_moved INTEGER, peak_bytes TEXT, host TEXT, executor TEXT, executor_kind TEXT, attempt INTEGER,
  synthetic_share REAL);
CREATE INDEX measurements_by_time ON measurements(step_time_s) WHERE valid = 1;
CREATE TABLE updates("update" INTEGER PRIMARY KEY, policy_version INTEGER, episodes TEXT, staleness_mean REAL, staleness_max INTEGER,
  gradient_norm REAL, loss REAL, entropy REAL, learning_rate REAL, wall_s REAL, parameters_sha256 TEXT, advantages BLOB);
CREATE TABLE checkpoints(policy_version INTEGER PRIMARY KEY, "update" INTEGER, sha256 TEXT, parameters BLOB, optimizer BLOB);
)sql";

/// SQLite's locks and shared memory do not hold on these.
bool on_network(const std::filesystem::path& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return false;
  constexpr std::array<unsigned long, 4> kNetwork{0x6969 /* NFS */, 0xff534d42 /* CIFS */,
                                                  0xfe534d42 /* SMB2 */, 0x01021997 /* 9P */};
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

std::uint64_t chain_link(std::uint64_t before, const EpisodeRow& row, const Bytes& placements,
                         const Bytes& actions, const std::vector<MeasurementRow>& measurements) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset_withSeed(state, before);
  const auto add = [&](const void* data, std::size_t size) { XXH3_64bits_update(state, data, size); };
  const std::array<std::uint64_t, 5> head{row.seq, row.episode, row.controller, row.policy_version,
                                          row.count};
  add(head.data(), sizeof head);
  add(row.graph_sha256.data(), row.graph_sha256.size());
  add(placements.data(), placements.size());
  add(actions.data(), actions.size());
  for (const MeasurementRow& m : measurements) {
    const std::array<std::uint64_t, 4> ids{m.placement_id, m.number, m.valid ? 1u : 0u, m.attempt};
    add(ids.data(), sizeof ids);
    add(&m.step_time_s, sizeof m.step_time_s);
    add(&m.bytes_over, sizeof m.bytes_over);
    add(&m.bytes_moved, sizeof m.bytes_moved);
    add(m.peak_bytes.data(), m.peak_bytes.size() * sizeof(std::int64_t));
    add(m.executor.c_str(), m.executor.size() + 1);
  }
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

void RunDb::State::prepare(Durability durability) {
  db.exec("PRAGMA journal_mode=WAL");
  db.exec(durability == Durability::kDisk ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  insert_episode =
      std::make_unique<SQLite::Statement>(db, "INSERT INTO episodes VALUES(?,?,?,?,?,?,?,?,?,?)");
  insert_measurement =
      std::make_unique<SQLite::Statement>(db, "INSERT INTO measurements VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert_update =
      std::make_unique<SQLite::Statement>(db, "INSERT INTO updates VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
  SQLite::Statement last{db, "SELECT seq, chain FROM episodes ORDER BY seq DESC LIMIT 1"};
  if (last.executeStep()) {
    last_seq = back(last.getColumn(0).getInt64());
    chain = back(last.getColumn(1).getInt64());
  }
}

RunDb::RunDb(std::unique_ptr<State> state) : state_{std::move(state)} {}
RunDb::~RunDb() = default;

Result<std::unique_ptr<RunDb>> RunDb::create(const std::filesystem::path& directory, const RunFacts& facts) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure || !std::filesystem::is_directory(directory))
    return io(directory, "the run directory cannot be made; choose another with --run-dir");
  ::chmod(directory.c_str(), 0700);
  if (std::filesystem::exists(directory / "run.db")) {
    return invalid(printable(directory.string()), "holds a run already",
                   "go on with it by --resume, or choose another --run-dir");
  }
  if (on_network(directory))
    return io(directory,
              "lies on a network file system, where a database is not safe; use a local --run-dir");
  try {
    auto state = std::make_unique<State>(directory, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    state->db.exec("PRAGMA journal_mode=WAL");
    SQLite::Transaction transaction{state->db};
    state->db.exec(kSchema);
    SQLite::Statement insert{state->db, "INSERT INTO runs VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"};
    insert.bind(1, kSchemaVersion);
    int at = 2;
    for (const std::string* text : {&facts.software_version, &facts.host, &facts.graph, &facts.graph_sha256,
                                    &facts.devices_json, &facts.config_toml, &facts.method}) {
      insert.bind(at++, *text);
    }
    insert.bind(at++, sql(facts.seed));
    insert.bind(at++, facts.started_wall_ns);
    insert.bind(at++, facts.num_ops);
    insert.bind(at, facts.num_devices);
    insert.exec();
    transaction.commit();
    state->prepare(Durability::kDisk);
    return std::unique_ptr<RunDb>{new RunDb{std::move(state)}};
  } catch (const std::exception& error) {
    return io(directory, std::string{"the run database cannot be made: "} + error.what());
  }
}

Result<std::unique_ptr<RunDb>> RunDb::open(const std::filesystem::path& directory, bool writable,
                                           Durability durability) {
  if (!std::filesystem::exists(directory / "run.db"))
    return invalid(printable(directory.string()), "holds no run");
  try {
    auto state =
        std::make_unique<State>(directory, writable ? SQLite::OPEN_READWRITE : SQLite::OPEN_READONLY);
    SQLite::Statement version{state->db, "SELECT schema_version FROM runs"};
    if (!version.executeStep() || version.getColumn(0).getInt() != kSchemaVersion) {
      return invalid(printable(directory.string()), "is a run of another version of emplace");
    }
    if (writable) state->prepare(durability);
    return std::unique_ptr<RunDb>{new RunDb{std::move(state)}};
  } catch (const std::exception& error) {
    return invalid(printable(directory.string()), std::string{"run.db is damaged: "} + error.what());
  }
}

Result<Unit> RunDb::add_episode(const EpisodeRow& row, const std::vector<MeasurementRow>& measurements) {
  State& s = *state_;
  const Bytes placements = compress_zstd(row.placements, 1), actions = compress_zstd(row.actions, 1);
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
      m.exec();
    }
    s.db.exec("RELEASE episode");
  } catch (const SQLite::Exception& error) {
    s.insert_episode->tryReset();
    s.insert_measurement->tryReset();
    s.db.tryExec("ROLLBACK TO episode");
    s.db.tryExec("RELEASE episode");
    constexpr int kConstraint = 19;
    if (error.getErrorCode() == kConstraint) {
      return invalid("episode " + std::to_string(row.episode), "was counted already");
    }
    return io(s.directory, std::string{"run.db: "} + error.what());
  }
  s.chain = chain;
  s.last_seq = row.seq;
  s.rows += 1 + measurements.size();
  return Unit{};
}

Result<Unit> RunDb::add_update(const UpdateRow& row) {
  return state_->guarded([&] {
    state_->begin();
    SQLite::Statement& u = *state_->insert_update;
    u.reset();
    u.bind(1, sql(row.update));
    u.bind(2, sql(row.policy_version));
    u.bind(3, joined(row.episodes));
    u.bind(4, row.staleness_mean);
    u.bind(5, sql(row.staleness_max));
    int at = 6;
    for (const double number : {row.gradient_norm, row.loss, row.entropy, row.learning_rate, row.wall_s})
      u.bind(at++, number);
    u.bind(at++, row.parameters_sha256);
    u.bindNoCopy(at, row.advantages.data(), static_cast<int>(row.advantages.size() * sizeof(float)));
    u.exec();
    ++state_->rows;
    return Unit{};
  });
}

Result<Unit> RunDb::add_checkpoint(const CheckpointRow& row) {
  return state_->guarded([&] {
    state_->begin();
    const Bytes parameters = compress_zstd(row.parameters, 1), optimizer = compress_zstd(row.optimizer, 1);
    SQLite::Statement c{state_->db, "INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?,?)"};
    c.bind(1, sql(row.policy_version));
    c.bind(2, sql(row.update));
    c.bind(3, row.sha256);
    c.bind(4, parameters.data(), static_cast<int>(parameters.size()));
    c.bind(5, optimizer.data(), static_cast<int>(optimizer.size()));
    c.exec();
    ++state_->rows;
    return Unit{};
  });
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
  auto done = s.guarded([&] {
    s.transaction->commit();
    return Unit{};
  });
  s.transaction.reset();
  s.rows = 0;
  if (!done) return done;
  // Kept apart from the WAL, so that a WAL cut short shows.
  return write_file(s.directory / "head.seq", std::to_string(s.last_seq) + "\n");
}

std::size_t RunDb::uncommitted_rows() const { return state_->rows; }

}  // namespace emplace::record
