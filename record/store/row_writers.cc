#include "record/store/row_writers.h"

#include <string>

#include "record/store/columns.h"
#include "record/store/seal.h"

namespace emplace::record {

void insert_episode(SQLite::Statement& insert, const EpisodeRow& row, const Bytes& placements,
                    const Bytes& actions, std::uint64_t chain) {
  RowWriter out{insert};
  out << row.seq << row.episode << row.controller << row.policy_version << row.count << placements << actions
      << chain << row.graph_sha256 << row.placement_id << row.wall_ns;
  out.insert();
}

void insert_measurement(SQLite::Statement& insert, const MeasurementRow& m) {
  RowWriter out{insert};
  out << m.placement_id << m.episode << m.number << m.valid << m.step_time_s << m.bytes_over << m.bytes_moved
      << m.peak_bytes << m.host << m.executor << m.executor_kind << m.attempt << m.synthetic_share;
  // Columns of real executors; NULL takes no space.
  const std::string label{label_name(m.label)};
  m.failure.empty() ? out.null() : out << m.failure;
  m.label == MeasurementLabel::kSimulated ? out.null() : out << label;
  m.samples_s.empty() ? out.null() : out << m.samples_s;
  out.insert();
}

void insert_update(SQLite::Statement& insert, const UpdateRow& update) {
  SealedRow row{insert};
  row << update;
  row.insert();
}

void insert_checkpoint(SQLite::Statement& insert, const CheckpointRow& checkpoint) {
  const Bytes parameters = compress_zstd(checkpoint.parameters, 1),
              optimizer = compress_zstd(checkpoint.optimizer, 1);
  SealedRow row{insert};
  row << checkpoint.policy_version << checkpoint.update << checkpoint.sha256 << parameters << optimizer;
  row.insert();
}

}  // namespace emplace::record
