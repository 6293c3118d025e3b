#include "record/run_db.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/text/words.h"

namespace emplace::record {
namespace {

constexpr int kSchemaVersion = 2;

constexpr const char* kSchema = R"sql(
CREATE TABLE runs(schema_version INTEGER, software_version TEXT, host TEXT, graph TEXT, graph_sha256 TEXT, devices TEXT,
  config TEXT, method TEXT, seed INTEGER, started_wall_ns INTEGER, num_ops INTEGER, num_devices INTEGER);
CREATE TABLE actors(name TEXT, host TEXT, started_wall_ns INTEGER);
CREATE TABLE episodes(seq INTEGER PRIMARY KEY, episode INTEGER NOT NULL UNIQUE, controller INTEGER, policy_version INTEGER,
  count INTEGER, placements BLOB, actions BLOB, chain INTEGER NOT NULL, graph_sha256 TEXT);
CREATE TABLE measurements(placement_id INTEGER PRIMARY KEY, episode INTEGER NOT NULL, number INTEGER, valid INTEGER, step_time_s REAL,
  bytes_over INTEGER, bytes_moved INTEGER, peak_bytes TEXT, host TEXT, executor TEXT, executor_kind TEXT, attempt INTEGER,
  synthetic_share REAL);
CREATE INDEX measurements_by_time ON measurements(step_time_s) WHERE valid = 1;
CREATE TABLE updates("update" INTEGER PRIMARY KEY, policy_version INTEGER, episodes TEXT, staleness_mean REAL, staleness_max INTEGER,
  gradient_norm REAL, loss REAL, entropy REAL, learning_rate REAL, wall_s REAL, parameters_sha256 TEXT);
CREATE TABLE checkpoints(policy_version INTEGER PRIMARY KEY, "update" INTEGER, sha256 TEXT, parameters BLOB, optimizer BLOB);
)sql";

Error io(const std::filesystem::path& directory, std::string_view what) {
  return Error{Errc::kIo, printable(directory.string()) + ": " + std::string{what}};
}

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
template <class T>
std::vector<T> split(const std::string& text) {
  std::vector<T> numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t used = 0;
    numbers.push_back(static_cast<T>(std::stoll(text.substr(at), &used)));
    at += used + 1;
  }
  return numbers;
}

Bytes blob(const SQLite::Column& column) {
  const auto* first = static_cast<const std::byte*>(column.getBlob());
  return first == nullptr ? Bytes{} : Bytes(first, first + column.getBytes());
}

/// What a compressed column holds. Throws, as SQLite does, if it is damaged.
Bytes unpacked(const SQLite::Column& column, std::string_view what) {
  auto bytes = decompress(blob(column), what);
  if (!bytes) throw std::runtime_error{bytes.error().context};
  return *std::move(bytes);
}

std::int64_t sql(std::uint64_t number) { return static_cast<std::int64_t>(number); }
std::uint64_t back(std::int64_t number) { return static_cast<std::uint64_t>(number); }

/// XXH3 of a row's content, chained to the row before it.
std::uint64_t link(std::uint64_t before, const EpisodeRow& row, const Bytes& placements, const Bytes& actions,
                   const std::vector<MeasurementRow>& measurements) {
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

constexpr const char* kEpisodeColumns =
    "seq, episode, controller, policy_version, count, graph_sha256, placements, actions";

/// An episode without its blobs, which are the columns 6 and 7.
EpisodeRow read_episode_head(SQLite::Statement& q) {
  EpisodeRow row;
  row.seq = back(q.getColumn(0).getInt64());
  row.episode = back(q.getColumn(1).getInt64());
  row.controller = q.getColumn(2).getUInt();
  row.policy_version = back(q.getColumn(3).getInt64());
  row.count = q.getColumn(4).getUInt();
  row.graph_sha256 = q.getColumn(5).getString();
  return row;
}

MeasurementRow read_measurement(SQLite::Statement& row) {
  MeasurementRow m;
  m.placement_id = back(row.getColumn(0).getInt64());
  m.episode = back(row.getColumn(1).getInt64());
  m.number = row.getColumn(2).getUInt();
  m.valid = row.getColumn(3).getInt() != 0;
  m.step_time_s = row.getColumn(4).getDouble();
  m.bytes_over = row.getColumn(5).getInt64();
  m.bytes_moved = row.getColumn(6).getInt64();
  m.peak_bytes = split<std::int64_t>(row.getColumn(7).getString());
  m.host = row.getColumn(8).getString();
  m.executor = row.getColumn(9).getString();
  m.executor_kind = row.getColumn(10).getString();
  m.attempt = row.getColumn(11).getUInt();
  m.synthetic_share = row.getColumn(12).getDouble();
  return m;
}
constexpr const char* kMeasurementColumns =
    "m.placement_id, m.episode, m.number, m.valid, m.step_time_s, m.bytes_over, m.bytes_moved, m.peak_bytes, "
    "m.host, m.executor, "
    "m.executor_kind, m.attempt, m.synthetic_share";

}  // namespace

struct RunDb::State {
  State(const std::filesystem::path& path, int flags)
      : directory{path}, db{(path / "run.db").string(), flags, /*busy_timeout_ms=*/5000} {}

  std::filesystem::path directory;
  SQLite::Database db;
  std::unique_ptr<SQLite::Transaction> transaction;
  std::unique_ptr<SQLite::Statement> insert_episode, insert_measurement, insert_update;
  std::uint64_t chain = 0;
  std::uint64_t last_seq = 0;
  std::size_t rows = 0;

  void begin() {
    if (!transaction) transaction = std::make_unique<SQLite::Transaction>(db);
  }
  void prepare() {
    db.exec("PRAGMA journal_mode=WAL");
    db.exec("PRAGMA synchronous=FULL");
    insert_episode =
        std::make_unique<SQLite::Statement>(db, "INSERT INTO episodes VALUES(?,?,?,?,?,?,?,?,?)");
    insert_measurement =
        std::make_unique<SQLite::Statement>(db, "INSERT INTO measurements VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
    insert_update =
        std::make_unique<SQLite::Statement>(db, "INSERT INTO updates VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    SQLite::Statement last{db, "SELECT seq, chain FROM episodes ORDER BY seq DESC LIMIT 1"};
    if (last.executeStep()) {
      last_seq = back(last.getColumn(0).getInt64());
      chain = back(last.getColumn(1).getInt64());
    }
  }
  /// Runs a database action; what SQLite throws becomes an Error.
  template <class F>
  auto guarded(F action) -> Result<decltype(action())> {
    try {
      return action();
    } catch (const std::exception& error) {
      return io(directory, std::string{"run.db: "} + error.what());
    }
  }
};

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
    state->prepare();
    return std::unique_ptr<RunDb>{new RunDb{std::move(state)}};
  } catch (const std::exception& error) {
    return io(directory, std::string{"the run database cannot be made: "} + error.what());
  }
}

Result<std::unique_ptr<RunDb>> RunDb::open(const std::filesystem::path& directory, bool writable) {
  if (!std::filesystem::exists(directory / "run.db"))
    return invalid(printable(directory.string()), "holds no run");
  try {
    auto state =
        std::make_unique<State>(directory, writable ? SQLite::OPEN_READWRITE : SQLite::OPEN_READONLY);
    SQLite::Statement version{state->db, "SELECT schema_version FROM runs"};
    if (!version.executeStep() || version.getColumn(0).getInt() != kSchemaVersion) {
      return invalid(printable(directory.string()), "is a run of another version of emplace");
    }
    if (writable) state->prepare();
    return std::unique_ptr<RunDb>{new RunDb{std::move(state)}};
  } catch (const std::exception& error) {
    return invalid(printable(directory.string()), std::string{"run.db is damaged: "} + error.what());
  }
}

Result<Unit> RunDb::add_episode(const EpisodeRow& row, const std::vector<MeasurementRow>& measurements) {
  State& s = *state_;
  const Bytes placements = compress_zstd(row.placements, 1), actions = compress_zstd(row.actions, 1);
  const std::uint64_t chain = link(s.chain, row, placements, actions, measurements);
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
    u.bind(at, row.parameters_sha256);
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

Result<RunFacts> RunDb::facts() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT software_version, host, graph, graph_sha256, devices, config, method, seed, "
                        "started_wall_ns, num_ops, num_devices FROM runs"};
    q.executeStep();
    RunFacts f;
    int at = 0;
    for (std::string* text : {&f.software_version, &f.host, &f.graph, &f.graph_sha256, &f.devices_json,
                              &f.config_toml, &f.method}) {
      *text = q.getColumn(at++).getString();
    }
    f.seed = back(q.getColumn(at++).getInt64());
    f.started_wall_ns = q.getColumn(at++).getInt64();
    f.num_ops = q.getColumn(at++).getUInt();
    f.num_devices = q.getColumn(at).getUInt();
    return f;
  });
}

Result<Counters> RunDb::counters() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT (SELECT COUNT(*) FROM episodes), (SELECT COUNT(*) FROM measurements), "
                        "(SELECT COUNT(*) FROM measurements WHERE valid = 1), "
                        "(SELECT COUNT(*) FROM updates), (SELECT COUNT(*) FROM checkpoints)"};
    q.executeStep();
    Counters c;
    int at = 0;
    for (std::uint64_t* count : {&c.episodes, &c.measurements, &c.valid, &c.updates, &c.checkpoints})
      *count = back(q.getColumn(at++).getInt64());
    return c;
  });
}

Result<std::uint64_t> RunDb::next_episode() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, "SELECT COALESCE(MAX(episode) + 1, 0) FROM episodes"};
    q.executeStep();
    return back(q.getColumn(0).getInt64());
  });
}

Result<std::optional<BestRow>> RunDb::best(const std::string& graph_sha256) {
  auto found = state_->guarded([&]() -> std::optional<BestRow> {
    SQLite::Statement q{state_->db,
                        "SELECT m.placement_id, m.episode, m.number, m.step_time_s, e.placements, e.count "
                        "FROM measurements m JOIN episodes e ON e.episode = m.episode "
                        "WHERE m.valid = 1 AND ?1 IN ('', e.graph_sha256) "
                        "ORDER BY m.step_time_s, m.placement_id LIMIT 1"};
    q.bind(1, graph_sha256);
    if (!q.executeStep()) return std::nullopt;
    BestRow row;
    row.placement_id = back(q.getColumn(0).getInt64());
    row.episode = back(q.getColumn(1).getInt64());
    row.step_time_s = q.getColumn(3).getDouble();
    const Bytes all = unpacked(q.getColumn(4), "placements");
    const std::size_t count = q.getColumn(5).getUInt(), number = q.getColumn(2).getUInt();
    if (count == 0 || number >= count) return row;
    const std::size_t ops = all.size() / count;
    row.placement.assign(all.begin() + static_cast<std::ptrdiff_t>(number * ops),
                         all.begin() + static_cast<std::ptrdiff_t>((number + 1) * ops));
    return row;
  });
  if (!found) return found.error();
  return *found;
}

Result<std::optional<std::int64_t>> RunDb::least_bytes_over() {
  return state_->guarded([&]() -> std::optional<std::int64_t> {
    SQLite::Statement q{state_->db, "SELECT MIN(bytes_over) FROM measurements"};
    if (!q.executeStep() || q.getColumn(0).isNull()) return std::nullopt;
    return q.getColumn(0).getInt64();
  });
}

Result<std::vector<EpisodeRow>> RunDb::episodes(std::uint64_t from_seq, std::size_t limit) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, std::string{"SELECT "} + kEpisodeColumns +
                                        " FROM episodes WHERE seq >= ? ORDER BY seq LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    std::vector<EpisodeRow> rows;
    while (q.executeStep()) {
      EpisodeRow row = read_episode_head(q);
      row.placements = unpacked(q.getColumn(6), "placements");
      row.actions = unpacked(q.getColumn(7), "actions");
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

Result<std::vector<MeasurementRow>> RunDb::measurements(std::uint64_t from_seq, std::size_t limit) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, std::string{"SELECT "} + kMeasurementColumns +
                                        " FROM measurements m JOIN episodes e ON e.episode = m.episode WHERE "
                                        "e.seq >= ? ORDER BY e.seq, m.number LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    std::vector<MeasurementRow> rows;
    while (q.executeStep()) rows.push_back(read_measurement(q));
    return rows;
  });
}

Result<std::vector<UpdateRow>> RunDb::updates() {
  return state_->guarded([&] {
    SQLite::Statement q{
        state_->db,
        "SELECT \"update\", policy_version, episodes, staleness_mean, staleness_max, gradient_norm, loss, "
        "entropy, learning_rate, wall_s, parameters_sha256 FROM updates ORDER BY 1"};
    std::vector<UpdateRow> rows;
    while (q.executeStep()) {
      UpdateRow row;
      row.update = back(q.getColumn(0).getInt64());
      row.policy_version = back(q.getColumn(1).getInt64());
      row.episodes = split<std::uint64_t>(q.getColumn(2).getString());
      row.staleness_mean = q.getColumn(3).getDouble();
      row.staleness_max = back(q.getColumn(4).getInt64());
      int at = 5;
      for (double* number : {&row.gradient_norm, &row.loss, &row.entropy, &row.learning_rate, &row.wall_s})
        *number = q.getColumn(at++).getDouble();
      row.parameters_sha256 = q.getColumn(at).getString();
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

Result<std::optional<CheckpointRow>> RunDb::latest_checkpoint() {
  return state_->guarded([&]() -> std::optional<CheckpointRow> {
    SQLite::Statement q{state_->db,
                        "SELECT policy_version, \"update\", sha256, parameters, optimizer FROM checkpoints "
                        "ORDER BY policy_version DESC LIMIT 1"};
    if (!q.executeStep()) return std::nullopt;
    CheckpointRow row;
    row.policy_version = back(q.getColumn(0).getInt64());
    row.update = back(q.getColumn(1).getInt64());
    row.sha256 = q.getColumn(2).getString();
    row.parameters = unpacked(q.getColumn(3), "parameters");
    row.optimizer = unpacked(q.getColumn(4), "optimizer");
    return row;
  });
}

Result<Unit> RunDb::verify() {
  auto followed = state_->guarded([&]() -> Result<Unit> {
    std::uint64_t chain = 0, expected_seq = 1;
    SQLite::Statement q{state_->db,
                        std::string{"SELECT "} + kEpisodeColumns + ", chain FROM episodes ORDER BY seq"};
    SQLite::Statement m{state_->db, std::string{"SELECT "} + kMeasurementColumns +
                                        " FROM measurements m WHERE m.episode = ? ORDER BY m.number"};
    while (q.executeStep()) {
      EpisodeRow row = read_episode_head(q);
      m.reset();
      m.bind(1, sql(row.episode));
      std::vector<MeasurementRow> measurements;
      while (m.executeStep()) measurements.push_back(read_measurement(m));
      chain = link(chain, row, blob(q.getColumn(6)), blob(q.getColumn(7)), measurements);
      if (row.seq != expected_seq++ || chain != back(q.getColumn(8).getInt64())) {
        return invalid(printable(state_->directory.string()) + ": run.db",
                       "the record is damaged at episode number " + std::to_string(row.seq),
                       "what came before it can be trusted");
      }
    }
    std::uint64_t acknowledged = 0;
    if (const auto head = read_file(state_->directory / "head.seq")) {
      acknowledged = std::strtoull(
          std::string{reinterpret_cast<const char*>(head->data()), head->size()}.c_str(), nullptr, 10);
    }
    if (expected_seq - 1 < acknowledged) {
      return invalid(printable(state_->directory.string()) + ": run.db",
                     "the record is shortened: " + std::to_string(expected_seq - 1) + " episodes of " +
                         std::to_string(acknowledged));
    }
    return Unit{};
  });
  if (!followed) return followed.error();
  return *followed;
}

}  // namespace emplace::record
