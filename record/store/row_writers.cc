#include "record/store/row_writers.h"

#include <string>

#include "record/store/columns.h"
#include "record/store/seal.h"

namespace emplace::record {
namespace {

/// Columns of real executors; NULL takes no space.
void bind_real(SQLite::Statement& m, const MeasurementRow& measured) {
  for (const int column : {14, 15, 16}) m.bind(column);
  if (!measured.failure.empty()) m.bind(14, measured.failure);
  if (measured.label != MeasurementLabel::kSimulated) m.bind(15, std::string{label_name(measured.label)});
  if (!measured.samples_s.empty())
    m.bindNoCopy(16, measured.samples_s.data(), static_cast<int>(measured.samples_s.size() * sizeof(double)));
}

}  // namespace

void insert_episode(SQLite::Statement& e, const EpisodeRow& row, const Bytes& placements,
                    const Bytes& actions, std::uint64_t chain) {
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
  e.bind(11, row.wall_ns);
  e.exec();
}

void insert_measurement(SQLite::Statement& m, const MeasurementRow& measured) {
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
  bind_real(m, measured);
  m.exec();
}

void insert_update(SQLite::Statement& insert, const UpdateRow& update) {
  const std::string episodes = joined(update.episodes);
  const auto* const first = reinterpret_cast<const std::byte*>(update.advantages.data());
  const Bytes advantages(first, first + update.advantages.size() * sizeof(float));
  SealedRow row{insert};
  row << sql(update.update) << sql(update.policy_version) << episodes << update.staleness_mean
      << sql(update.staleness_max) << update.gradient_norm << update.loss << update.entropy
      << update.learning_rate << update.wall_s << update.parameters_sha256 << advantages
      << update.log_probability << update.divergence << update.wall_ns;
  row.insert();
}

void insert_checkpoint(SQLite::Statement& insert, const CheckpointRow& checkpoint) {
  const Bytes parameters = compress_zstd(checkpoint.parameters, 1),
              optimizer = compress_zstd(checkpoint.optimizer, 1);
  SealedRow row{insert};
  row << sql(checkpoint.policy_version) << sql(checkpoint.update) << checkpoint.sha256 << parameters
      << optimizer;
  row.insert();
}

}  // namespace emplace::record
