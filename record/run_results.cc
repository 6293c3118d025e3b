#include "record/run_results.h"

#include "record/store/columns.h"
#include "record/store/row_readers.h"
#include "record/store/run_connection.h"

namespace emplace::record {

Result<Counters> RunResults::counters() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        "SELECT (SELECT COUNT(*) FROM episodes), (SELECT COUNT(*) FROM measurements), "
                        "(SELECT COUNT(*) FROM measurements WHERE valid = 1), "
                        "(SELECT COUNT(*) FROM updates), (SELECT COUNT(*) FROM checkpoints)"};
    q.executeStep();
    Counters c;
    RowReader{q} >> c.episodes >> c.measurements >> c.valid >> c.updates >> c.checkpoints;
    return c;
  });
}

Result<std::vector<std::string>> RunResults::graphs() const {
  return connection_->rows("SELECT DISTINCT graph_sha256 FROM episodes ORDER BY 1",
                           [](SQLite::Statement& q) { return q.getColumn(0).getString(); });
}

namespace {

/// Valid measurements m and their episodes e, of a graph if the hash, parameter 1, is not empty. In a run of
/// one graph the index by time finds the fastest ones. With many graphs it would pass all measurements of
/// the faster ones, so the episodes of the graph are found first, and then their measurements by id. "+"
/// keeps SQLite from an index over all measurements, made for one query.
std::string valid_measurements(SQLite::Database& db, const std::string& graph_sha256) {
  bool many = false;
  if (!graph_sha256.empty()) {
    SQLite::Statement other{db, "SELECT 1 FROM episodes WHERE graph_sha256 <> ?1 LIMIT 1"};
    other.bind(1, graph_sha256);
    many = other.executeStep();
  }
  const std::string own = " m.placement_id >= e.placement_id AND m.placement_id < e.placement_id + e.count ";
  if (many)
    return " FROM episodes e CROSS JOIN measurements m ON" + own +
           "AND +m.episode = e.episode WHERE e.graph_sha256 = ?1 AND +m.valid = 1 AND +m.step_time_s >= 0 ";
  return " FROM measurements m JOIN episodes e ON e.episode = m.episode AND" + own +
         "WHERE m.valid = 1 AND m.step_time_s >= 0 " +
         (graph_sha256.empty() ? "" : "AND e.graph_sha256 = ?1 ");
}

}  // namespace

Result<std::optional<BestRow>> RunResults::best(const std::string& graph_sha256) const {
  return connection_->guarded([&]() -> std::optional<BestRow> {
    SQLite::Statement q{connection_->db,
                        "SELECT m.placement_id, m.episode, m.step_time_s, m.bytes_moved, m.peak_bytes, "
                        "m.number, e.count, m.label, e.placements" +
                            valid_measurements(connection_->db, graph_sha256) +
                            "ORDER BY m.step_time_s, m.placement_id LIMIT 1"};
    if (!graph_sha256.empty()) q.bind(1, graph_sha256);
    if (!q.executeStep()) return std::nullopt;
    BestRow row;
    std::uint32_t number = 0, count = 0;
    RowReader in{q};
    in >> row.placement_id >> row.episode >> row.step_time_s >> row.bytes_moved >> row.peak_bytes >> number >>
        count;
    row.label = label_of(in.next());
    const Bytes all = placements_of(in.next());
    if (count == 0 || number >= count) return row;
    const std::size_t ops = all.size() / count;
    row.placement.assign(all.begin() + static_cast<std::ptrdiff_t>(number * ops),
                         all.begin() + static_cast<std::ptrdiff_t>((number + 1) * ops));
    return row;
  });
}

Result<std::optional<BestTime>> RunResults::best_time(const std::string& graph_sha256) const {
  return connection_->guarded([&]() -> std::optional<BestTime> {
    const std::string valid = valid_measurements(connection_->db, graph_sha256);
    SQLite::Statement q{connection_->db, "SELECT m.step_time_s, m.label" + valid +
                                             "ORDER BY m.step_time_s, m.placement_id LIMIT 1"};
    if (!graph_sha256.empty()) q.bind(1, graph_sha256);
    if (!q.executeStep()) return std::nullopt;
    BestTime best{q.getColumn(0).getDouble(), label_of(q.getColumn(1)), 0};
    // A policy that has settled draws its best placement again and again; without a hash, the index alone
    // finds those episodes.
    SQLite::Statement first{connection_->db, "SELECT wall_ns FROM episodes WHERE seq = (SELECT MIN(e.seq)" +
                                                 valid + "AND m.step_time_s = ?2)"};
    if (!graph_sha256.empty()) first.bind(1, graph_sha256);
    first.bind(2, best.step_time_s);
    if (first.executeStep()) best.wall_ns = first.getColumn(0).getInt64();
    return best;
  });
}

Result<std::uint64_t> RunResults::measured() const {
  return connection_->number("SELECT COUNT(*) FROM measurements");
}

Result<std::int64_t> RunResults::last_wall_ns() const {
  EMPLACE_TRY_ASSIGN(const auto last,
                     connection_->number("SELECT wall_ns FROM episodes ORDER BY seq DESC LIMIT 1"));
  return static_cast<std::int64_t>(last);
}

Result<std::optional<std::int64_t>> RunResults::least_bytes_over() const {
  return connection_->row(
      "SELECT least FROM (SELECT MIN(bytes_over) AS least FROM measurements WHERE failure IS NULL OR failure "
      "LIKE 'oom%') WHERE least IS NOT NULL",
      [](SQLite::Statement& q) { return q.getColumn(0).getInt64(); });
}

Result<std::vector<CurveSample>> RunResults::samples(const std::string& graph_sha256) const {
  return connection_->guarded([&] {
    SQLite::Statement run{connection_->db, "SELECT started_wall_ns FROM runs"};
    run.executeStep();
    const std::int64_t started_wall_ns = run.getColumn(0).getInt64();
    // Joins by id: placement ids of an episode are consecutive, so only the episodes need sorting, and no
    // index is made.
    SQLite::Statement q{connection_->db,
                        "SELECT m.valid, m.step_time_s, e.wall_ns FROM episodes e CROSS JOIN measurements m "
                        "ON m.placement_id >= e.placement_id AND m.placement_id < e.placement_id + e.count "
                        "AND +m.episode = e.episode WHERE e.graph_sha256 = ? ORDER BY e.seq"};
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

Result<std::vector<PolicySample>> RunResults::policy_samples() const {
  return connection_->rows("SELECT \"update\", entropy, gradient_norm, learning_rate FROM updates ORDER BY 1",
                           [](SQLite::Statement& q) {
                             PolicySample sample;
                             RowReader{q} >> sample.update >> sample.entropy >> sample.gradient_norm >>
                                 sample.learning_rate;
                             return sample;
                           });
}

Result<std::vector<MeasurerRow>> RunResults::measurers() const {
  return connection_->rows(
      "SELECT host, executor_kind, COUNT(DISTINCT executor), COUNT(*) FROM measurements "
      "GROUP BY host, executor_kind ORDER BY host, executor_kind",
      [](SQLite::Statement& q) {
        MeasurerRow row;
        RowReader{q} >> row.host >> row.executor_kind >> row.executors >> row.measurements;
        return row;
      });
}

}  // namespace emplace::record
