#include "record/run_db_state.h"

namespace emplace::record {

Result<std::vector<CurveSample>> RunDb::samples(const std::string& graph_sha256) {
  return state_->guarded([&] {
    SQLite::Statement run{state_->db, "SELECT started_wall_ns FROM runs"};
    run.executeStep();
    const std::int64_t started_wall_ns = run.getColumn(0).getInt64();
    // By ids: placements of an episode have consecutive ones, and nothing needs sorting but the episodes.
    SQLite::Statement q{state_->db,
                        "SELECT m.valid, m.step_time_s, e.wall_ns FROM episodes e CROSS JOIN measurements m "
                        "ON m.placement_id >= e.placement_id AND m.placement_id < e.placement_id + e.count "
                        "AND m.episode = e.episode WHERE e.graph_sha256 = ? ORDER BY e.seq"};
    q.bind(1, graph_sha256);
    std::vector<CurveSample> samples;
    while (q.executeStep()) {
      const std::int64_t wall_ns = q.getColumn(2).getInt64();
      samples.push_back({q.getColumn(0).getInt() != 0, q.getColumn(1).getDouble(),
                         wall_ns == 0 ? 0 : static_cast<double>(wall_ns - started_wall_ns) * 1e-9});
    }
    return samples;
  });
}

Result<std::vector<MeasurerRow>> RunDb::measurers() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT host, executor_kind, COUNT(DISTINCT executor), COUNT(*) FROM measurements "
                        "GROUP BY host, executor_kind ORDER BY host, executor_kind"};
    std::vector<MeasurerRow> rows;
    while (q.executeStep())
      rows.push_back({q.getColumn(0).getString(), q.getColumn(1).getString(), back(q.getColumn(2).getInt64()),
                      back(q.getColumn(3).getInt64())});
    return rows;
  });
}

}  // namespace emplace::record
