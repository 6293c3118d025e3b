#include "actors/log_rows.h"

#include <algorithm>

namespace emplace::actors {

using messages::EpisodeMeasured;

std::vector<record::MeasurementRow> rows_of(const EpisodeMeasured& m) {
  std::vector<record::MeasurementRow> rows;
  for (std::uint32_t i = 0; i < m.count; ++i) {
    record::MeasurementRow row;
    row.placement_id = m.placement_id + i;
    row.episode = m.episode;
    row.number = i;
    row.valid = m.valid[i] != 0;
    row.step_time_s = m.step_time_s[i];
    row.bytes_over = m.bytes_over[i];
    row.bytes_moved = m.bytes_moved[i];
    row.peak_bytes.assign(m.peak_bytes.begin() + std::ptrdiff_t{i} * m.num_devices,
                          m.peak_bytes.begin() + std::ptrdiff_t{i + 1} * m.num_devices);
    row.host = m.hosts[m.executor_of[i]];
    row.executor = m.executors[m.executor_of[i]];
    row.executor_kind = m.executor_kinds[m.executor_of[i]];
    row.attempt = m.attempt[i];
    row.synthetic_share = m.synthetic_share[i];
    if (!m.failures.empty()) row.failure = m.failures[i];
    if (!m.labels.empty()) row.label = static_cast<MeasurementLabel>(m.labels[i]);
    const auto samples = m.samples_of(i);
    row.samples_s.assign(samples.begin(), samples.end());
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
  m.count = static_cast<std::uint32_t>(row.measurements.size());
  m.policy_version = e.policy_version;
  if (!row.measurements.empty())
    m.num_devices = static_cast<std::uint32_t>(row.measurements.front().peak_bytes.size());
  m.resize();
  for (std::uint32_t i = 0; i < m.count; ++i) {
    const record::MeasurementRow& measured = row.measurements[i];
    std::size_t known = 0;
    while (known < m.executors.size() && m.executors[known] != measured.executor) ++known;
    if (known == m.executors.size()) {
      m.executors.push_back(measured.executor);
      m.executor_kinds.push_back(measured.executor_kind);
      m.hosts.push_back(measured.host);
    }
    m.executor_of[i] = static_cast<std::uint16_t>(known);
    m.attempt[i] = measured.attempt;
    m.synthetic_share[i] = measured.synthetic_share;
    if (!measured.failure.empty()) m.failures.resize(m.count), m.failures[i] = measured.failure;
    if (measured.label != MeasurementLabel::kSimulated)
      m.labels.resize(m.count), m.labels[i] = static_cast<std::uint8_t>(measured.label);
    if (!measured.samples_s.empty()) {
      m.sample_counts.resize(m.count);
      m.sample_counts[i] = static_cast<std::uint32_t>(measured.samples_s.size());
      m.samples_s.insert(m.samples_s.end(), measured.samples_s.begin(), measured.samples_s.end());
    }
    m.valid[i] = measured.valid ? 1 : 0;
    m.step_time_s[i] = measured.step_time_s;
    m.bytes_over[i] = measured.bytes_over;
    m.bytes_moved[i] = measured.bytes_moved;
    std::copy(measured.peak_bytes.begin(), measured.peak_bytes.end(),
              m.peak_bytes.begin() + std::ptrdiff_t{i} * m.num_devices);
  }
  return m;
}

}  // namespace emplace::actors
