#include "record/run_log.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "record/store/columns.h"
#include "record/store/row_readers.h"
#include "record/store/run_connection.h"

namespace emplace::record {
namespace {

std::string episodes_where(const std::string& rest) {
  return std::string{"SELECT "} + kEpisodeColumns + " FROM episodes WHERE " + rest;
}

/// Log rows of a query on `episodes`.
template <class... Parameters>
std::vector<LogRow> read_log(SQLite::Database& db, bool actions, const std::string& query,
                             const Parameters&... parameters) {
  SQLite::Statement q{db, query};
  SQLite::bind(q, parameters...);
  MeasurementsOf measurements_of{db};
  std::vector<LogRow> rows;
  while (q.executeStep()) {
    LogRow row{read_episode_head(q), {}};
    if (actions) row.episode.actions = unpacked(q.getColumn(9), "actions");
    row.measurements = measurements_of(row.episode);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::uint64_t read_number(SQLite::Statement& q) { return back(q.getColumn(0).getInt64()); }

}  // namespace

Result<std::vector<LogRow>> RunLog::rows(std::uint64_t from_seq, std::size_t limit, bool actions) const {
  return connection_->guarded([&] {
    return read_log(connection_->db, actions, episodes_where("seq >= ? ORDER BY seq LIMIT ?"), sql(from_seq),
                    sql(limit));
  });
}

Result<std::optional<LogRow>> RunLog::row_of(std::uint64_t episode, bool actions) const {
  return connection_->guarded([&]() -> std::optional<LogRow> {
    auto rows = read_log(connection_->db, actions, episodes_where("episode = ?"), sql(episode));
    if (rows.empty()) return std::nullopt;
    return std::move(rows.front());
  });
}

Result<std::vector<EpisodeRow>> RunLog::episodes(std::uint64_t from_seq, std::size_t limit) const {
  const auto read = [](SQLite::Statement& q) {
    EpisodeRow row = read_episode_head(q);
    row.placements = placements_of(q.getColumn(8));
    row.actions = unpacked(q.getColumn(9), "actions");
    return row;
  };
  return connection_->rows(episodes_where("seq >= ? ORDER BY seq LIMIT ?"), read, sql(from_seq), sql(limit));
}

Result<std::vector<MeasurementRow>> RunLog::measurements(std::uint64_t from_seq, std::size_t limit) const {
  return connection_->rows(std::string{"SELECT "} + kMeasurementColumns +
                               " FROM measurements m JOIN episodes e ON e.episode = m.episode WHERE "
                               "e.seq >= ? ORDER BY e.seq, m.number LIMIT ?",
                           read_measurement, sql(from_seq), sql(limit));
}

Result<bool> RunLog::has_episode(std::uint64_t episode) const {
  EMPLACE_TRY_ASSIGN(const auto found,
                     connection_->number("SELECT 1 FROM episodes WHERE episode = ?", sql(episode)));
  return found != 0;
}

Result<std::vector<std::uint64_t>> RunLog::episodes_of(std::uint32_t controller) const {
  return connection_->rows("SELECT episode FROM episodes WHERE controller = ? ORDER BY episode", read_number,
                           controller);
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
  return connection_->rows("SELECT * FROM updates ORDER BY 1", read_update);
}

Result<std::optional<UpdateRow>> RunLog::update(std::uint64_t number) const {
  return connection_->row("SELECT * FROM updates WHERE \"update\" = ?", read_update, sql(number));
}

Result<std::uint64_t> RunLog::last_update() const {
  return connection_->number("SELECT MAX(\"update\") FROM updates");
}

Result<std::uint64_t> RunLog::chain_at(std::uint64_t seq) const {
  return connection_->number("SELECT chain FROM episodes WHERE seq = ?", sql(seq));
}

}  // namespace emplace::record
