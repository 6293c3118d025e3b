// What a run is about, and what was found of it later: read from its database.
#include <stdexcept>

#include "base/ids.h"
#include "record/run_db_columns.h"

namespace emplace::record {

Result<RunFacts> RunDb::facts() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT software_version, host, graph, graph_sha256, devices, config, method, seed, "
                        "started_wall_ns, num_ops, num_devices, run_id, parent, host_facts FROM runs"};
    q.executeStep();
    RunFacts f;
    int at = 0;
    for (std::string* text : {&f.software_version, &f.host, &f.graph, &f.graph_sha256, &f.devices_json,
                              &f.config_toml, &f.method}) {
      *text = q.getColumn(at++).getString();
    }
    f.seed = back(q.getColumn(at++).getInt64());
    f.started_wall_ns = q.getColumn(at++).getInt64();
    f.num_ops = q.getColumn(at++).getUInt();
    f.num_devices = q.getColumn(at++).getUInt();
    if (f.num_devices > kMaxDevices) throw std::runtime_error{"the number of devices is damaged"};
    for (std::string* text : {&f.run_id, &f.parent, &f.host_facts}) *text = q.getColumn(at++).getString();
    return f;
  });
}

Result<std::vector<GraphRow>> RunDb::graph_rows() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT sha256, name, file, num_ops, content, devices, reserve, lower_bound_s, bound "
                        "FROM graphs ORDER BY rowid"};
    std::vector<GraphRow> rows;
    while (q.executeStep()) {
      GraphRow& row = rows.emplace_back();
      row.sha256 = q.getColumn(0).getString();
      row.name = q.getColumn(1).getString();
      row.file = q.getColumn(2).getString();
      row.num_ops = q.getColumn(3).getUInt();
      row.content = unpacked(q.getColumn(4), "graph");
      row.devices_toml = q.getColumn(5).getString();
      row.reserve = q.getColumn(6).getDouble();
      row.lower_bound_s = q.getColumn(7).getDouble();
      row.bound = q.getColumn(8).getString();
    }
    return rows;
  });
}

Result<std::vector<BaselineRow>> RunDb::baselines() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
                        "SELECT graph_sha256, method, found, valid, step_time_s, bytes_over, bytes_moved, "
                        "peak_bytes, evaluations, wall_s, note, placement FROM baselines ORDER BY rowid"};
    std::vector<BaselineRow> rows;
    while (q.executeStep()) {
      BaselineRow& row = rows.emplace_back();
      row.graph_sha256 = q.getColumn(0).getString();
      row.method = q.getColumn(1).getString();
      row.found = q.getColumn(2).getInt() != 0;
      row.valid = q.getColumn(3).getInt() != 0;
      row.step_time_s = q.getColumn(4).getDouble();
      row.bytes_over = q.getColumn(5).getInt64();
      row.bytes_moved = q.getColumn(6).getInt64();
      row.peak_bytes = split<std::int64_t>(q.getColumn(7).getString());
      row.evaluations = back(q.getColumn(8).getInt64());
      row.wall_s = q.getColumn(9).getDouble();
      row.note = q.getColumn(10).getString();
      if (q.getColumn(11).getBytes() > 0) row.placement = placements_of(q.getColumn(11));
    }
    return rows;
  });
}

Result<std::vector<RemeasureSession>> RunDb::remeasure_sessions() {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
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

Result<std::vector<RemeasuredRow>> RunDb::remeasured(std::uint64_t session) {
  return state_->guarded([&] {
    SQLite::Statement q{state_->db,
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
