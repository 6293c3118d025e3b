#include "record/store/row_readers.h"

#include <SQLiteCpp/VariadicBind.h>

#include <string>

#include "record/store/columns.h"

namespace emplace::record {

EpisodeRow read_episode_head(SQLite::Statement& q) {
  EpisodeRow row;
  RowReader{q} >> row.seq >> row.episode >> row.controller >> row.policy_version >> row.count >>
      row.graph_sha256 >> row.placement_id >> row.wall_ns;
  return row;
}

MeasurementLabel label_of(const SQLite::Column& column) {
  const std::string name = column.getString();
  for (const MeasurementLabel label : {MeasurementLabel::kMeasured, MeasurementLabel::kPartlySynthetic,
                                       MeasurementLabel::kEmulated, MeasurementLabel::kTorch})
    if (label_name(label) == name) return label;
  return MeasurementLabel::kSimulated;
}

MeasurementRow read_measurement(SQLite::Statement& q) {
  MeasurementRow m;
  RowReader row{q};
  row >> m.placement_id >> m.episode >> m.number >> m.valid;
  m.step_time_s = real_of(row.next());
  row >> m.bytes_over >> m.bytes_moved >> m.peak_bytes >> m.host >> m.executor >> m.executor_kind >>
      m.attempt >> m.synthetic_share >> m.failure;
  m.label = label_of(row.next());
  row >> m.samples_s;
  return m;
}

MeasurementsOf::MeasurementsOf(SQLite::Database& db)
    : query_{db, std::string{"SELECT "} + kMeasurementColumns +
                     " FROM measurements m WHERE m.placement_id >= ?1 AND m.placement_id < ?1 + ?2 "
                     "AND m.episode = ?3 ORDER BY m.placement_id"} {}

std::vector<MeasurementRow> MeasurementsOf::operator()(const EpisodeRow& episode) {
  query_.reset();
  SQLite::bind(query_, sql(episode.placement_id), episode.count, sql(episode.episode));
  std::vector<MeasurementRow> rows;
  while (query_.executeStep()) rows.push_back(read_measurement(query_));
  query_.reset();
  return rows;
}

UpdateRow read_update(SQLite::Statement& q) {
  UpdateRow row;
  RowReader{q} >> row;
  return row;
}

CheckpointRow read_checkpoint(SQLite::Statement& q) {
  // Packed parameters are never empty. A row with a damaged header may read as NULL, including its seal.
  if (q.getColumn(3).getBytes() == 0) throw std::runtime_error{"checkpoint without parameters"};
  CheckpointRow row;
  RowReader{q} >> row.policy_version >> row.update >> row.sha256;
  row.parameters = unpacked(q.getColumn(3), "parameters");
  row.optimizer = unpacked(q.getColumn(4), "optimizer");
  return row;
}

}  // namespace emplace::record
