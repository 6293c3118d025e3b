#pragma once
/// What is kept of a run: one SQLite file in the run directory, readable by any SQLite tool while the run
/// goes on. docs/run_database.md describes the tables.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/statistics.h"
#include "placement/measurement.h"
#include "record/learning_curve.h"

namespace emplace::record {

/// Facts of the run, written once.
struct RunFacts {
  std::string software_version, host, graph, graph_sha256, devices_json, config_toml, method;
  std::uint64_t seed = 0;
  std::int64_t started_wall_ns = 0;
  std::uint32_t num_ops = 0, num_devices = 0;
  std::string run_id;      ///< 16 hex digits, unlike those of any other run.
  std::string parent;      ///< Where it came from, JSON (docs/run_database.md); empty: from nowhere.
  std::string host_facts;  ///< Of the machine and the build, JSON.
};

/// A graph that the run is about, whole, so that the run can be looked at where its files are not.
struct GraphRow {
  std::string sha256, name, file;
  std::uint32_t num_ops = 0;
  Bytes content;             ///< As graph/graph_file.h writes it to MessagePack; kept compressed.
  std::string devices_toml;  ///< The device file's text,
  double reserve = 0;        ///< with this share of memory kept free.
  double lower_bound_s = 0;
  std::string bound;  ///< Which one.
};

/// What a method that nobody trained made of a graph, before the run began.
struct BaselineRow {
  std::string graph_sha256, method;
  bool found = false, valid = false;
  double step_time_s = 0;
  std::int64_t bytes_over = 0, bytes_moved = 0;
  std::vector<std::int64_t> peak_bytes;
  std::uint64_t evaluations = 0;
  double wall_s = 0;
  std::string note;  ///< Why there is nothing.
  Bytes placement;   ///< [ops] one byte each; empty if nothing was found.
};

/// One finished episode: `count` placements measured.
struct EpisodeRow {
  std::uint64_t seq = 0;  ///< The recorder's number, from 1 without gaps.
  std::uint64_t episode = 0;
  std::uint32_t controller = 0;
  std::uint64_t policy_version = 0;
  std::uint32_t count = 0;
  std::string graph_sha256;
  Bytes placements;                ///< [count, ops] one byte each; kept compressed.
  Bytes actions;                   ///< The policy's own form; kept compressed.
  std::uint64_t placement_id = 0;  ///< Of its first placement.
  std::int64_t wall_ns = 0;        ///< When it was recorded; 0: not known.
};

/// One counted measurement.
struct MeasurementRow {
  std::uint64_t placement_id = 0;  ///< Unique over the run: nothing counts twice.
  std::uint64_t episode = 0;
  std::uint32_t number = 0;  ///< Within the episode.
  bool valid = false;
  double step_time_s = 0;
  std::int64_t bytes_over = 0, bytes_moved = 0;
  std::vector<std::int64_t> peak_bytes;
  std::string host, executor, executor_kind;
  std::uint32_t attempt = 1;
  double synthetic_share = 0;
  std::string failure;  ///< As Measurement has it; empty: it ran, or is simulated.
  MeasurementLabel label = MeasurementLabel::kSimulated;
  std::vector<double> samples_s;  ///< Timed steps.
};

struct UpdateRow {
  std::uint64_t update = 0, policy_version = 0;
  std::vector<std::uint64_t> episodes;  ///< Consumed, in order.
  double staleness_mean = 0;
  std::uint64_t staleness_max = 0;
  double gradient_norm = 0, loss = 0, entropy = 0, learning_rate = 0, wall_s = 0;
  std::string parameters_sha256;
  std::vector<float> advantages;               ///< As used, one episode after the other.
  double log_probability = 0, divergence = 0;  ///< As policy::LossParts has them.
  std::int64_t wall_ns = 0;                    ///< When it was recorded; 0: not known.
};

/// An episode as the recorder tells it again: without its placements.
struct LogRow {
  EpisodeRow episode;
  std::vector<MeasurementRow> measurements;
};

struct CheckpointRow {
  std::uint64_t policy_version = 0, update = 0;
  std::string sha256;
  Bytes parameters, optimizer;
};

/// A placement of the log, measured once more by another executor.
struct RemeasuredRow {
  std::uint64_t placement_id = 0;
  std::string graph_sha256;
  double logged_s = 0;  ///< What the log has.
  bool valid = false;
  double step_time_s = 0;
  double synthetic_share = 0;
  std::string error;  ///< Why there is no measurement.
};

/// One `replay --re-measure`, and how well its times go with those of the log.
struct RemeasureSession : Agreement {
  std::uint64_t session = 0;  ///< From 1.
  std::string executor_kind, host;
  std::int64_t started_wall_ns = 0;
};

struct Counters {
  std::uint64_t episodes = 0, measurements = 0, valid = 0, updates = 0, checkpoints = 0;
};

struct BestRow {
  std::uint64_t placement_id = 0, episode = 0;
  double step_time_s = 0;
  MeasurementLabel label = MeasurementLabel::kSimulated;
  std::int64_t bytes_moved = 0;
  std::vector<std::int64_t> peak_bytes;
  Bytes placement;  ///< [ops]
};

/// [B] What an episode of `count` placements [count, ops] takes in the database, its measurements and its
/// share of an update included.
std::int64_t episode_bytes(std::span<const std::byte> placements, std::size_t count,
                           std::span<const std::byte> actions, std::size_t devices);

/// Who measured how much.
struct MeasurerRow {
  std::string host, executor_kind;
  std::uint64_t executors = 0, measurements = 0;
};

/// What a commit waits for.
enum class Durability : std::uint8_t {
  kDisk,     ///< The disk: what was acknowledged survives a power cut.
  kProcess,  ///< The kernel: it survives the death of every process, but a power cut takes the last seconds.
};

/// Thread: one. Writes gather in a transaction until commit(), which returns when they are on disk.
class RunDb {
 public:
  /// Makes `directory` (0700; one that exists keeps its mode) and the database in it. Errors: kInvalid if it
  /// holds a run already; kIo if it cannot be written or lies on a network file system.
  static Result<std::unique_ptr<RunDb>> create(const std::filesystem::path& directory, const RunFacts& facts,
                                               const std::vector<GraphRow>& graphs = {},
                                               const std::vector<BaselineRow>& baselines = {});
  /// Opens an existing run, to go on (`writable`) or to read. One process at a time may write; an older
  /// schema is brought up to date then. Who reads changes nothing. Errors: kIo if there is none; kInvalid if
  /// it is damaged, newer than this program, or being written; kIo if it lies on a network file system, or
  /// (to write) while somebody reads it who wants quiet. To write with kDisk, the whole log is first written
  /// into the database and synced: kIo if the disk refuses, or while somebody reads from the log. Of
  /// what may pass (a read that fails, no descriptor, no memory): kIo.
  static Result<std::unique_ptr<RunDb>> open(const std::filesystem::path& directory, bool writable,
                                             Durability durability = Durability::kDisk);
  /// Before anything is written: that a run may be kept there, or where its folder would be made. Errors: kIo
  /// on a network file system.
  static Result<Unit> check_folder(const std::filesystem::path& directory);
  /// True while some process has it open to write.
  static bool is_being_written(const std::filesystem::path& directory);
  /// Opens a run to read while nobody writes it, and keeps it so: not a file changes. Errors: as open();
  /// kInvalid if it is being written.
  static Result<std::unique_ptr<RunDb>> open_quiet(const std::filesystem::path& directory);
  /// For who only looks: quietly where nobody writes, else as far as it has come. Errors: as open().
  static Result<std::unique_ptr<RunDb>> open_to_look(const std::filesystem::path& directory);
  ~RunDb();
  RunDb(const RunDb&) = delete;
  RunDb& operator=(const RunDb&) = delete;

  /// Adds an episode, all of it or nothing. False: it was counted before. Errors: kInvalid if another episode
  /// has one of its placement ids, or the file is damaged; kIo.
  Result<bool> add_episode(const EpisodeRow& episode, const std::vector<MeasurementRow>& measurements);
  Result<Unit> add_update(const UpdateRow& update);
  Result<Unit> add_checkpoint(const CheckpointRow& checkpoint);
  /// Errors: as add_episode; on disk when it returns.
  Result<Unit> add_remeasured(RemeasureSession& session, const std::vector<RemeasuredRow>& rows);
  /// Those after these updates.
  Result<Unit> drop_checkpoints(const std::vector<std::uint64_t>& updates);
  Result<Unit> add_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// The same, unless it is there already.
  Result<Unit> note_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// Returns when everything is on disk, under its path, in files that only this process has written. Errors:
  /// as watch(); nothing may then be acknowledged.
  Result<Unit> commit();
  std::size_t uncommitted_rows() const;
  /// Looks after the files while the run goes on: that they are where they were, that nobody else wrote to
  /// them (if somebody did, everything is verified), and that the next `rows` rows are as they were written.
  /// Call it about once a second. Errors: kIo for what may come back (the disk, a folder that was moved);
  /// kInvalid for what will not: damage, another file in their place.
  Result<Unit> watch(std::size_t rows);
  /// True if run.db was deleted while this object has it open: write_again() can save it.
  bool deleted() const;
  /// Writes the deleted run.db once more, with everything that was committed, and closes it: open it again
  /// afterwards. Errors (kIo): the disk refuses; `db` stays open, and nothing is lost yet.
  static Result<Unit> write_again(std::unique_ptr<RunDb>& db);
  /// The chain after the last episode that was added, and after episode number `seq` (0: there is none).
  std::uint64_t chain() const;
  Result<std::uint64_t> chain_at(std::uint64_t seq);

  Result<RunFacts> facts();
  Result<Counters> counters();
  Result<std::vector<std::string>> graphs();     ///< Hashes of those that episodes are about.
  Result<std::vector<GraphRow>> graph_rows();    ///< In the order of the config; none in runs of schema 3.
  Result<std::vector<BaselineRow>> baselines();  ///< As the table shows them; none in runs of schema 3.
  Result<std::vector<RemeasureSession>> remeasure_sessions();
  Result<std::vector<RemeasuredRow>> remeasured(std::uint64_t session);
  /// The fastest valid placement of a graph; of any where none is named.
  Result<std::optional<BestRow>> best(const std::string& graph_sha256 = "");
  /// Of the placement that came nearest to fitting; none if nothing was measured.
  Result<std::optional<std::int64_t>> least_bytes_over();
  /// Of one graph, in the order of their commits.
  Result<std::vector<CurveSample>> samples(const std::string& graph_sha256);
  Result<std::vector<MeasurerRow>> measurers();
  Result<std::vector<EpisodeRow>> episodes(std::uint64_t from_seq, std::size_t limit);
  Result<std::vector<MeasurementRow>> measurements(std::uint64_t from_episode_seq, std::size_t limit);
  /// Episodes in the order of their commits, with `actions` or without.
  Result<std::vector<LogRow>> log(std::uint64_t from_seq, std::size_t limit, bool actions);
  Result<std::optional<LogRow>> log_of(std::uint64_t episode, bool actions);
  Result<bool> has_episode(std::uint64_t episode);
  Result<std::vector<std::uint64_t>> episodes_of(std::uint32_t controller);  ///< Rising.
  Result<std::map<std::uint64_t, std::uint64_t>>
  unlearned();  ///< Log number by episode that no update names.
  Result<std::vector<UpdateRow>> updates();
  Result<std::optional<UpdateRow>> update(std::uint64_t number);
  Result<std::uint64_t> last_update();               ///< 0: none.
  Result<std::vector<std::uint64_t>> checkpoints();  ///< After which updates there are any; rising.
  /// The newest checkpoint after at most so many updates; the oldest if all are newer.
  Result<std::optional<CheckpointRow>> latest_checkpoint(
      std::uint64_t at_most = std::numeric_limits<std::int64_t>::max());
  /// Holds everything against its hashes: the chain of episodes, each row's seal, SQLite's own structure.
  /// Errors: kInvalid, naming the first damaged row; kIo if it cannot be read.
  Result<Unit> verify();

 private:
  struct State;
  enum class Access : std::uint8_t { kRead, kWrite, kQuiet };
  static Result<std::unique_ptr<RunDb>> open_as(const std::filesystem::path& directory, Access access,
                                                Durability durability);
  explicit RunDb(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace emplace::record
