#include "record/store/row_readers.h"

#include <cstring>
#include <limits>
#include <string>

#include "record/store/columns.h"

namespace emplace::record {

EpisodeRow read_episode_head(SQLite::Statement& q) {
  EpisodeRow row;
  row.seq = back(q.getColumn(0).getInt64());
  row.episode = back(q.getColumn(1).getInt64());
  row.controller = q.getColumn(2).getUInt();
  row.policy_version = back(q.getColumn(3).getInt64());
  row.count = q.getColumn(4).getUInt();
  row.graph_sha256 = q.getColumn(5).getString();
  row.placement_id = back(q.getColumn(6).getInt64());
  row.wall_ns = q.getColumn(9).getInt64();
  return row;
}

MeasurementLabel label_of(const SQLite::Column& column) {
  const std::string name = column.getString();
  for (const MeasurementLabel label : {MeasurementLabel::kMeasured, MeasurementLabel::kPartlySynthetic,
                                       MeasurementLabel::kEmulated, MeasurementLabel::kTorch})
    if (label_name(label) == name) return label;
  return MeasurementLabel::kSimulated;
}

MeasurementRow read_measurement(SQLite::Statement& row) {
  MeasurementRow m;
  m.placement_id = back(row.getColumn(0).getInt64());
  m.episode = back(row.getColumn(1).getInt64());
  m.number = row.getColumn(2).getUInt();
  m.valid = row.getColumn(3).getInt() != 0;
  m.step_time_s = real_of(row.getColumn(4));
  m.bytes_over = row.getColumn(5).getInt64();
  m.bytes_moved = row.getColumn(6).getInt64();
  m.peak_bytes = split<std::int64_t>(row.getColumn(7).getString());
  m.host = row.getColumn(8).getString();
  m.executor = row.getColumn(9).getString();
  m.executor_kind = row.getColumn(10).getString();
  m.attempt = row.getColumn(11).getUInt();
  m.synthetic_share = row.getColumn(12).getDouble();
  m.failure = row.getColumn(13).getString();
  m.label = label_of(row.getColumn(14));
  const Bytes samples = blob(row.getColumn(15));
  m.samples_s.resize(samples.size() / sizeof(double));
  if (!m.samples_s.empty())
    std::memcpy(m.samples_s.data(), samples.data(), m.samples_s.size() * sizeof(double));
  return m;
}

MeasurementsOf::MeasurementsOf(SQLite::Database& db)
    : query_{db, std::string{"SELECT "} + kMeasurementColumns +
                     " FROM measurements m WHERE m.placement_id >= ?1 AND m.placement_id < ?1 + ?2 "
                     "AND m.episode = ?3 ORDER BY m.placement_id"} {}

std::vector<MeasurementRow> MeasurementsOf::operator()(const EpisodeRow& episode) {
  query_.reset();
  query_.bind(1, sql(episode.placement_id));
  query_.bind(2, episode.count);
  query_.bind(3, sql(episode.episode));
  std::vector<MeasurementRow> rows;
  while (query_.executeStep()) rows.push_back(read_measurement(query_));
  query_.reset();
  return rows;
}

UpdateRow read_update(SQLite::Statement& q) {
  UpdateRow row;
  row.update = back(q.getColumn(0).getInt64());
  row.policy_version = back(q.getColumn(1).getInt64());
  row.episodes = split<std::uint64_t>(q.getColumn(2).getString());
  row.staleness_mean = q.getColumn(3).getDouble();
  row.staleness_max = back(q.getColumn(4).getInt64());
  int at = 5;
  for (double* number : {&row.gradient_norm, &row.loss, &row.entropy, &row.learning_rate, &row.wall_s})
    *number = q.getColumn(at++).getDouble();
  row.parameters_sha256 = q.getColumn(at++).getString();
  const Bytes advantages = blob(q.getColumn(at++));
  row.log_probability = q.getColumn(at++).getDouble();
  row.divergence = q.getColumn(at++).getDouble();
  row.wall_ns = q.getColumn(at).getInt64();
  row.advantages.resize(advantages.size() / sizeof(float));
  if (!row.advantages.empty())  // An empty vector may have a null data pointer.
    std::memcpy(row.advantages.data(), advantages.data(), row.advantages.size() * sizeof(float));
  return row;
}

CheckpointRow read_checkpoint(SQLite::Statement& q) {
  // Packed parameters are never empty. A row with a damaged header may read as NULL, including its seal.
  if (q.getColumn(3).getBytes() == 0) throw std::runtime_error{"checkpoint without parameters"};
  CheckpointRow row;
  row.policy_version = back(q.getColumn(0).getInt64());
  row.update = back(q.getColumn(1).getInt64());
  row.sha256 = q.getColumn(2).getString();
  row.parameters = unpacked(q.getColumn(3), "parameters");
  row.optimizer = unpacked(q.getColumn(4), "optimizer");
  return row;
}

}  // namespace emplace::record
