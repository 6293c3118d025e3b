#include "record/run_log.h"

#include <unordered_set>
#include <utility>

#include "record/store/columns.h"
#include "record/store/row_readers.h"
#include "record/store/run_connection.h"

namespace emplace::record {
namespace {

/// Log rows of a query on `episodes`.
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

Result<std::vector<LogRow>> RunLog::rows(std::uint64_t from_seq, std::size_t limit, bool actions) const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db, std::string{"SELECT "} + kEpisodeColumns +
                                             " FROM episodes WHERE seq >= ? ORDER BY seq LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    return read_log(connection_->db, q, actions);
  });
}

Result<std::optional<LogRow>> RunLog::row_of(std::uint64_t episode, bool actions) const {
  return connection_->guarded([&]() -> std::optional<LogRow> {
    SQLite::Statement q{connection_->db,
                        std::string{"SELECT "} + kEpisodeColumns + " FROM episodes WHERE episode = ?"};
    q.bind(1, sql(episode));
    auto rows = read_log(connection_->db, q, actions);
    if (rows.empty()) return std::nullopt;
    return std::move(rows.front());
  });
}

Result<std::vector<EpisodeRow>> RunLog::episodes(std::uint64_t from_seq, std::size_t limit) const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db, std::string{"SELECT "} + kEpisodeColumns +
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

Result<std::vector<MeasurementRow>> RunLog::measurements(std::uint64_t from_seq, std::size_t limit) const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        std::string{"SELECT "} + kMeasurementColumns +
                            " FROM measurements m JOIN episodes e ON e.episode = m.episode WHERE "
                            "e.seq >= ? ORDER BY e.seq, m.number LIMIT ?"};
    q.bind(1, sql(from_seq));
    q.bind(2, sql(limit));
    std::vector<MeasurementRow> rows;
    while (q.executeStep()) rows.push_back(read_measurement(q));
    return rows;
  });
}

Result<bool> RunLog::has_episode(std::uint64_t episode) const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db, "SELECT 1 FROM episodes WHERE episode = ?"};
    q.bind(1, sql(episode));
    return q.executeStep();
  });
}

Result<std::vector<std::uint64_t>> RunLog::episodes_of(std::uint32_t controller) const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        "SELECT episode FROM episodes WHERE controller = ? ORDER BY episode"};
    q.bind(1, controller);
    std::vector<std::uint64_t> episodes;
    while (q.executeStep()) episodes.push_back(back(q.getColumn(0).getInt64()));
    return episodes;
  });
}

Result<std::map<std::uint64_t, std::uint64_t>> RunLog::unlearned() const {
  return connection_->guarded([&] {
    std::unordered_set<std::uint64_t> learned;
    SQLite::Statement updates{connection_->db, "SELECT episodes FROM updates"};
    while (updates.executeStep())
      for (const std::uint64_t episode : split<std::uint64_t>(updates.getColumn(0).getString()))
        learned.insert(episode);
    std::map<std::uint64_t, std::uint64_t> left;
    SQLite::Statement episodes{connection_->db, "SELECT episode, seq FROM episodes"};
    while (episodes.executeStep()) {
      const std::uint64_t episode = back(episodes.getColumn(0).getInt64());
      if (!learned.contains(episode)) left.emplace(episode, back(episodes.getColumn(1).getInt64()));
    }
    return left;
  });
}

Result<std::vector<UpdateRow>> RunLog::updates() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        std::string{"SELECT "} + kUpdateColumns + " FROM updates ORDER BY 1"};
    std::vector<UpdateRow> rows;
    while (q.executeStep()) rows.push_back(read_update(q));
    return rows;
  });
}

Result<std::optional<UpdateRow>> RunLog::update(std::uint64_t number) const {
  return connection_->guarded([&]() -> std::optional<UpdateRow> {
    SQLite::Statement q{connection_->db,
                        std::string{"SELECT "} + kUpdateColumns + " FROM updates WHERE \"update\" = ?"};
    q.bind(1, sql(number));
    if (!q.executeStep()) return std::nullopt;
    return read_update(q);
  });
}

Result<std::uint64_t> RunLog::last_update() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db, "SELECT COALESCE(MAX(\"update\"), 0) FROM updates"};
    q.executeStep();
    return back(q.getColumn(0).getInt64());
  });
}

Result<std::uint64_t> RunLog::chain_at(std::uint64_t seq) const {
  return connection_->guarded([&]() -> std::uint64_t {
    SQLite::Statement q{connection_->db, "SELECT chain FROM episodes WHERE seq = ?"};
    q.bind(1, sql(seq));
    return q.executeStep() ? back(q.getColumn(0).getInt64()) : 0;
  });
}

}  // namespace emplace::record
