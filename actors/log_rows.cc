#include "actors/log_rows.h"

namespace emplace::actors {

using messages::EpisodeMeasured;

std::vector<record::MeasurementRow> rows_of(const EpisodeMeasured& m) {
  std::vector<record::MeasurementRow> rows;
  for (std::uint32_t i = 0; i < m.count; ++i) {
    record::MeasurementRow row;
    row.placement_id = m.placement_id + i;
    row.episode = m.episode;
    row.number = i;
    m.get(i, row);
    row.host = m.hosts[m.executor_of[i]];
    row.executor = m.executors[m.executor_of[i]];
    row.executor_kind = m.executor_kinds[m.executor_of[i]];
    row.attempt = m.attempt[i];
    row.busy_s.clear();  // Not recorded.
    rows.push_back(std::move(row));
  }
  return rows;
}

EpisodeMeasured measured_of(const record::LogRow& row) {
  EpisodeMeasured m;
  const record::EpisodeRow& e = row.episode;
  m.graph_sha256 = e.graph_sha256;
  m.controller = e.controller;
  m.episode = e.episode;
  m.placement_id = e.placement_id;
  m.policy_version = e.policy_version;
  const auto count = static_cast<std::uint32_t>(row.measurements.size());
  m.resize(count, count == 0 ? 0 : static_cast<std::uint32_t>(row.measurements.front().peak_bytes.size()));
  for (std::uint32_t i = 0; i < count; ++i) {
    const record::MeasurementRow& one = row.measurements[i];
    m.set(i, one);
    m.executor_of[i] = m.add_executor(one.executor, one.executor_kind, one.host);
    m.attempt[i] = one.attempt;
  }
  return m;
}

}  // namespace emplace::actors
