#include "record/remeasurements.h"

#include "record/store/columns.h"
#include "record/store/run_connection.h"

namespace emplace::record {

void insert_remeasured(SQLite::Database& db, RemeasureSession& session,
                       const std::vector<RemeasuredRow>& rows) {
  SQLite::Statement last{db, "SELECT COALESCE(MAX(session), 0) FROM remeasure_sessions"};
  last.executeStep();
  session.session = back(last.getColumn(0).getInt64()) + 1;
  SQLite::Statement insert{db, "INSERT INTO remeasure_sessions VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"};
  RowWriter out{insert};
  out << session.session << session.executor_kind << session.host << session.started_wall_ns << session.count
      << session.spearman << session.kendall << session.error_mean << session.error_median
      << session.error_p95 << session.error_max << session.top5_overlap;
  out.insert();
  SQLite::Statement one{db, "INSERT INTO remeasured VALUES(?,?,?,?,?,?,?,?)"};
  for (const RemeasuredRow& row : rows) {
    RowWriter again{one};
    again << session.session << row.placement_id << row.graph_sha256 << row.logged_s << row.valid
          << row.step_time_s << row.synthetic_share << row.error;
    again.insert();
  }
}

Result<std::vector<RemeasureSession>> Remeasurements::sessions() const {
  return connection_->rows("SELECT * FROM remeasure_sessions ORDER BY session", [](SQLite::Statement& q) {
    RemeasureSession session;
    RowReader row{q};
    row >> session.session >> session.executor_kind >> session.host >> session.started_wall_ns >>
        session.count;
    for (double* field : {&session.spearman, &session.kendall, &session.error_mean, &session.error_median,
                          &session.error_p95, &session.error_max})
      *field = real_of(row.next());
    row >> session.top5_overlap;
    return session;
  });
}

Result<std::vector<RemeasuredRow>> Remeasurements::rows(std::uint64_t session) const {
  return connection_->rows(
      "SELECT placement_id, graph_sha256, logged_s, valid, step_time_s, synthetic_share, error "
      "FROM remeasured WHERE session = ? ORDER BY rowid",
      [](SQLite::Statement& q) {
        RemeasuredRow row;
        RowReader{q} >> row.placement_id >> row.graph_sha256 >> row.logged_s >> row.valid >>
            row.step_time_s >> row.synthetic_share >> row.error;
        return row;
      },
      sql(session));
}

}  // namespace emplace::record
