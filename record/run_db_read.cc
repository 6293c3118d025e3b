#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "record/integrity.h"
#include "record/run_db_columns.h"
#include "record/run_db_rows.h"

namespace emplace::record {
namespace {

/// Log rows of a query over episodes.
std::vector<LogRow> read_log(SQLite::Database& db, SQLite::Statement& q, bool actions) {
  MeasurementsOf measurements_of{db};
  std::vector<LogRow> rows;
  while (q.executeStep()) {
    LogRow row{read_episode_head(q), {}};
    if (actions) row.episode.actions = unpacked(q.getColumn(8), "actions");
    row.measurements = measurements_of(row.episode);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Result<Counters> RunDb::counters() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT (SELECT COUNT(*) FROM episodes), (SELECT COUNT(*) FROM measurements), "
                        "(SELECT COUNT(*) FROM measurements WHERE valid = 1), "
                        "(SELECT COUNT(*) FROM updates), (SELECT COUNT(*) FROM checkpoints)"};
    q.executeStep();
    Counters c;
    int at = 0;
    for (std::uint64_t* count : {&c.episodes, &c.measurements, &c.valid, &c.updates, &c.checkpoints})
      *count = back(q.getColumn(at++).getInt64());
    return c;
  });
}

Result<std::vector<std::string>> RunDb::graphs() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, "SELECT DISTINCT graph_sha256 FROM episodes ORDER BY 1"};
    std::vector<std::string> graphs;
    while (q.executeStep()) graphs.push_back(q.getColumn(0).getString());
    return graphs;
  });
}

Result<std::vector<std::uint64_t>> RunDb::checkpoints() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, "SELECT \"update\" FROM checkpoints ORDER BY 1"};
    std::vector<std::uint64_t> updates;
    while (q.executeStep()) updates.push_back(back(q.getColumn(0).getInt64()));
    return updates;
  });
}

Result<std::optional<BestRow>> RunDb::best(const std::string& graph_sha256) {
  auto found = state_->guarded([&]() -> std::optional<BestRow> {
    SQLite::Statement q{
        state_->db,
        "SELECT m.placement_id, m.episode, m.number, m.step_time_s, e.placements, e.count, m.label, "
        "m.bytes_moved, m.peak_bytes "
        "FROM measurements m JOIN episodes e ON e.episode = m.episode "
        "AND m.placement_id >= e.placement_id AND m.placement_id < e.placement_id + e.count "
        "WHERE m.valid = 1 AND m.step_time_s >= 0 AND ?1 IN ('', e.graph_sha256) "
        "ORDER BY m.step_time_s, m.placement_id LIMIT 1"};
    q.bind(1, graph_sha256);
    if (!q.executeStep()) return std::nullopt;
    BestRow row;
    row.placement_id = back(q.getColumn(0).getInt64());
    row.episode = back(q.getColumn(1).getInt64());
    row.step_time_s = q.getColumn(3).getDouble();
    row.label = label_of(q.getColumn(6));
    row.bytes_moved = q.getColumn(7).getInt64();
    row.peak_bytes = split<std::int64_t>(q.getColumn(8).getString());
    const Bytes all = placements_of(q.getColumn(4));
    const std::size_t count = q.getColumn(5).getUInt(), number = q.getColumn(2).getUInt();
    if (count == 0 || number >= count) return row;
    const std::size_t ops = all.size() / count;
    row.placement.assign(all.begin() + static_cast<std::ptrdiff_t>(number * ops),
                         all.begin() + static_cast<std::ptrdiff_t>((number + 1) * ops));
    return row;
  });
  if (!found) return found.error();
  return *found;
}

Result<std::optional<std::int64_t>> RunDb::least_bytes_over() {
  return state_->guarded([&]() -> std::optional<std::int64_t> {
    SQLite::Statement q{
        state_->db, "SELECT MIN(bytes_over) FROM measurements WHERE failure IS NULL OR failure LIKE 'oom%'"};
    if (!q.executeStep() || q.getColumn(0).isNull()) return std::nullopt;
    return q.getColumn(0).getInt64();
  });
}

Result<std::vector<EpisodeRow>> RunDb::episodes(std::uint64_t from_seq, std::size_t limit) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, std::string{"SELECT "} + kEpisodeColumns +
                                        " FROM episodes WHERE seq >= ? ORDER BY seq LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    std::vector<EpisodeRow> rows;
    while (q.executeStep()) {
      EpisodeRow row = read_episode_head(q);
      row.placements = placements_of(q.getColumn(7));
      row.actions = unpacked(q.getColumn(8), "actions");
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

Result<std::vector<MeasurementRow>> RunDb::measurements(std::uint64_t from_seq, std::size_t limit) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, std::string{"SELECT "} + kMeasurementColumns +
                                        " FROM measurements m JOIN episodes e ON e.episode = m.episode WHERE "
                                        "e.seq >= ? ORDER BY e.seq, m.number LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    std::vector<MeasurementRow> rows;
    while (q.executeStep()) rows.push_back(read_measurement(q));
    return rows;
  });
}

Result<std::vector<LogRow>> RunDb::log(std::uint64_t from_seq, std::size_t limit, bool actions) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, std::string{"SELECT "} + kEpisodeColumns +
                                        " FROM episodes WHERE seq >= ? ORDER BY seq LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    return read_log(state_->db, q, actions);
  });
}

Result<std::optional<LogRow>> RunDb::log_of(std::uint64_t episode, bool actions) {
  return state_->guarded([&]() -> std::optional<LogRow> {
    SQLite::Statement q{state_->db,
                        std::string{"SELECT "} + kEpisodeColumns + " FROM episodes WHERE episode = ?"};
    q.bind(1, sql(episode));
    auto rows = read_log(state_->db, q, actions);
    if (rows.empty()) return std::nullopt;
    return std::move(rows.front());
  });
}

Result<bool> RunDb::has_episode(std::uint64_t episode) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, "SELECT 1 FROM episodes WHERE episode = ?"};
    q.bind(1, sql(episode));
    return q.executeStep();
  });
}

Result<std::vector<std::uint64_t>> RunDb::episodes_of(std::uint32_t controller) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, "SELECT episode FROM episodes WHERE controller = ? ORDER BY episode"};
    q.bind(1, controller);
    std::vector<std::uint64_t> episodes;
    while (q.executeStep()) episodes.push_back(back(q.getColumn(0).getInt64()));
    return episodes;
  });
}

Result<std::map<std::uint64_t, std::uint64_t>> RunDb::unlearned() {
  return state_->guarded([&] {
    std::unordered_set<std::uint64_t> learned;
    SQLite::Statement updates{state_->db, "SELECT episodes FROM updates"};
    while (updates.executeStep())
      for (const std::uint64_t episode : split<std::uint64_t>(updates.getColumn(0).getString()))
        learned.insert(episode);
    std::map<std::uint64_t, std::uint64_t> left;
    SQLite::Statement episodes{state_->db, "SELECT episode, seq FROM episodes"};
    while (episodes.executeStep()) {
      const std::uint64_t episode = back(episodes.getColumn(0).getInt64());
      if (!learned.contains(episode)) left.emplace(episode, back(episodes.getColumn(1).getInt64()));
    }
    return left;
  });
}

Result<std::vector<UpdateRow>> RunDb::updates() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, std::string{"SELECT "} + kUpdateColumns + " FROM updates ORDER BY 1"};
    std::vector<UpdateRow> rows;
    while (q.executeStep()) rows.push_back(read_update(q));
    return rows;
  });
}

Result<std::optional<UpdateRow>> RunDb::update(std::uint64_t number) {
  return state_->guarded([&]() -> std::optional<UpdateRow> {
    SQLite::Statement q{state_->db,
                        std::string{"SELECT "} + kUpdateColumns + " FROM updates WHERE \"update\" = ?"};
    q.bind(1, sql(number));
    if (!q.executeStep()) return std::nullopt;
    return read_update(q);
  });
}

Result<std::uint64_t> RunDb::last_update() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db, "SELECT COALESCE(MAX(\"update\"), 0) FROM updates"};
    q.executeStep();
    return back(q.getColumn(0).getInt64());
  });
}

Result<std::optional<CheckpointRow>> RunDb::latest_checkpoint(std::uint64_t at_most) {
  return state_->guarded([&]() -> std::optional<CheckpointRow> {
    SQLite::Statement q{state_->db,
                        "SELECT * FROM checkpoints ORDER BY \"update\" <= ?1 DESC, "
                        "CASE WHEN \"update\" <= ?1 THEN -\"update\" ELSE \"update\" END LIMIT 1"};
    q.bind(1, sql(at_most));
    if (!q.executeStep()) return std::nullopt;
    // Its hash covers what is in it, not that it is there.
    if (!is_as_sealed(q, q.getColumnCount() - 1))
      throw std::runtime_error{"a checkpoint is not as it was sealed"};
    return read_checkpoint(q);
  });
}

}  // namespace emplace::record
