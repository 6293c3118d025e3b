#pragma once
/// What is kept of a run: one SQLite file in the run directory, readable by any SQLite tool while the run
/// goes on. docs/run_database.md describes the tables.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// Facts of the run, written once.
struct RunFacts {
  std::string software_version, host, graph, graph_sha256, devices_json, config_toml, method;
  std::uint64_t seed = 0;
  std::int64_t started_wall_ns = 0;
  std::uint32_t num_ops = 0, num_devices = 0;
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
};

struct UpdateRow {
  std::uint64_t update = 0, policy_version = 0;
  std::vector<std::uint64_t> episodes;  ///< Consumed, in order.
  double staleness_mean = 0;
  std::uint64_t staleness_max = 0;
  double gradient_norm = 0, loss = 0, entropy = 0, learning_rate = 0, wall_s = 0;
  std::string parameters_sha256;
  std::vector<float> advantages;  ///< As used, one episode after the other.
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

struct Counters {
  std::uint64_t episodes = 0, measurements = 0, valid = 0, updates = 0, checkpoints = 0;
};

struct BestRow {
  std::uint64_t placement_id = 0, episode = 0;
  double step_time_s = 0;
  Bytes placement;  ///< [ops]
};

/// What a commit waits for.
enum class Durability : std::uint8_t {
  kDisk,     ///< The disk: what was acknowledged survives a power cut.
  kProcess,  ///< The kernel: it survives the death of every process, but a power cut takes the last seconds.
};

/// Thread: one. Writes gather in a transaction until commit(), which returns when they are on disk.
class RunDb {
 public:
  /// Makes `directory` (0700) and the database in it. Errors: kInvalid if it holds a run already; kIo if it
  /// cannot be written or lies on a network file system.
  static Result<std::unique_ptr<RunDb>> create(const std::filesystem::path& directory, const RunFacts& facts);
  /// Opens an existing run, to go on (`writable`) or to read. Errors: kInvalid if there is none, or it is
  /// damaged.
  static Result<std::unique_ptr<RunDb>> open(const std::filesystem::path& directory, bool writable,
                                             Durability durability = Durability::kDisk);
  ~RunDb();
  RunDb(const RunDb&) = delete;
  RunDb& operator=(const RunDb&) = delete;

  /// Errors: kInvalid if one of the placements counted already (nothing of the episode is then written); kIo.
  Result<Unit> add_episode(const EpisodeRow& episode, const std::vector<MeasurementRow>& measurements);
  Result<Unit> add_update(const UpdateRow& update);
  Result<Unit> add_checkpoint(const CheckpointRow& checkpoint);
  Result<Unit> add_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  /// The same, unless it is there already.
  Result<Unit> note_actor(const std::string& name, const std::string& host, std::int64_t wall_ns);
  Result<Unit> commit();
  std::size_t uncommitted_rows() const;

  Result<RunFacts> facts();
  Result<Counters> counters();
  Result<std::vector<std::string>> graphs();  ///< Hashes of those that episodes are about.
  /// The fastest valid placement of a graph; of any where none is named.
  Result<std::optional<BestRow>> best(const std::string& graph_sha256 = "");
  /// Of the placement that came nearest to fitting; none if nothing was measured.
  Result<std::optional<std::int64_t>> least_bytes_over();
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
  Result<std::uint64_t> last_update();  ///< 0: none.
  /// The newest checkpoint after at most so many updates; the oldest if all are newer.
  Result<std::optional<CheckpointRow>> latest_checkpoint(
      std::uint64_t at_most = std::numeric_limits<std::int64_t>::max());
  /// Follows the chain of row hashes. Errors: kInvalid, naming the first damaged row.
  Result<Unit> verify();

 private:
  struct State;
  explicit RunDb(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace emplace::record
