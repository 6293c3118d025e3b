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
  insert.bind(1, sql(session.session));
  insert.bind(2, session.executor_kind);
  insert.bind(3, session.host);
  insert.bind(4, session.started_wall_ns);
  insert.bind(5, sql(session.count));
  int at = 6;
  for (const double number : {session.spearman, session.kendall, session.error_mean, session.error_median,
                              session.error_p95, session.error_max})
    insert.bind(at++, number);
  insert.bind(at, sql(session.top5_overlap));
  insert.exec();
  SQLite::Statement one{db, "INSERT INTO remeasured VALUES(?,?,?,?,?,?,?,?)"};
  for (const RemeasuredRow& row : rows) {
    one.reset();
    one.bind(1, sql(session.session));
    one.bind(2, sql(row.placement_id));
    one.bind(3, row.graph_sha256);
    one.bind(4, row.logged_s);
    one.bind(5, row.valid ? 1 : 0);
    one.bind(6, row.step_time_s);
    one.bind(7, row.synthetic_share);
    one.bind(8, row.error);
    one.exec();
  }
}

Result<std::vector<RemeasureSession>> Remeasurements::sessions() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        "SELECT session, executor_kind, host, started_wall_ns, count, spearman, kendall, "
                        "error_mean, error_median, error_p95, error_max, top5_overlap FROM "
                        "remeasure_sessions ORDER BY session"};
    std::vector<RemeasureSession> rows;
    while (q.executeStep()) {
      RemeasureSession& row = rows.emplace_back();
      row.session = back(q.getColumn(0).getInt64());
      row.executor_kind = q.getColumn(1).getString();
      row.host = q.getColumn(2).getString();
      row.started_wall_ns = q.getColumn(3).getInt64();
      row.count = back(q.getColumn(4).getInt64());
      int at = 5;
      for (double* field :
           {&row.spearman, &row.kendall, &row.error_mean, &row.error_median, &row.error_p95, &row.error_max})
        *field = real_of(q.getColumn(at++));
      row.top5_overlap = back(q.getColumn(at).getInt64());
    }
    return rows;
  });
}

Result<std::vector<RemeasuredRow>> Remeasurements::rows(std::uint64_t session) const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        "SELECT placement_id, graph_sha256, logged_s, valid, step_time_s, synthetic_share, "
                        "error FROM remeasured WHERE session = ? ORDER BY rowid"};
    q.bind(1, sql(session));
    std::vector<RemeasuredRow> rows;
    while (q.executeStep()) {
      RemeasuredRow& row = rows.emplace_back();
      row.placement_id = back(q.getColumn(0).getInt64());
      row.graph_sha256 = q.getColumn(1).getString();
      row.logged_s = q.getColumn(2).getDouble();
      row.valid = q.getColumn(3).getInt() != 0;
      row.step_time_s = q.getColumn(4).getDouble();
      row.synthetic_share = q.getColumn(5).getDouble();
      row.error = q.getColumn(6).getString();
    }
    return rows;
  });
}

}  // namespace emplace::record
