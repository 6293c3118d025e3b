#pragma once
/// Reads rows of the tables that grow with a run. Damaged values throw, as SQLite does.

#include <SQLiteCpp/SQLiteCpp.h>

#include <vector>

#include "record/store/run_rows.h"

namespace emplace::record {

/// Columns of `episodes` for read_episode_head(). `placements` and `actions` are columns 8 and 9.
inline constexpr const char* kEpisodeColumns =
    "seq, episode, controller, policy_version, count, graph_sha256, placement_id, wall_ns, placements, "
    "actions";
/// An episode without its blobs.
EpisodeRow read_episode_head(SQLite::Statement& row);

/// Decodes a column `label`; NULL: simulated.
MeasurementLabel label_of(const SQLite::Column& column);

/// Columns of `measurements m` for read_measurement().
inline constexpr const char* kMeasurementColumns =
    "m.placement_id, m.episode, m.number, m.valid, m.step_time_s, m.bytes_over, m.bytes_moved, m.peak_bytes, "
    "m.host, m.executor, m.executor_kind, m.attempt, m.synthetic_share, m.failure, m.label, m.samples_s";
MeasurementRow read_measurement(SQLite::Statement& row);

/// Reads an episode's measurements in order.
class MeasurementsOf {
 public:
  explicit MeasurementsOf(SQLite::Database& db);
  std::vector<MeasurementRow> operator()(const EpisodeRow& episode);

 private:
  SQLite::Statement query_;
};

/// Reads the columns of `updates` in table order.
UpdateRow read_update(SQLite::Statement& row);

/// Reads the columns of `checkpoints` in table order. Throws if the row is damaged.
CheckpointRow read_checkpoint(SQLite::Statement& row);

}  // namespace emplace::record
