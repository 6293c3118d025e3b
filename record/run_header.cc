#include "record/run_header.h"

#include <stdexcept>

#include "base/ids.h"
#include "record/store/columns.h"
#include "record/store/packed.h"
#include "record/store/run_connection.h"
#include "record/store/schema.h"
#include "record/store/seal.h"

namespace emplace::record {
namespace {

void insert_facts(SQLite::Database& db, const RunFacts& facts) {
  SQLite::Statement insert{db, "INSERT INTO runs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  SealedRow row{insert};
  row << std::int64_t{kSchemaVersion};
  for (const std::string* text : {&facts.software_version, &facts.host, &facts.graph, &facts.graph_sha256,
                                  &facts.devices_json, &facts.config_toml, &facts.method})
    row << *text;
  row << sql(facts.seed) << facts.started_wall_ns << std::int64_t{facts.num_ops}
      << std::int64_t{facts.num_devices} << facts.run_id << facts.parent << facts.host_facts;
  row.insert();
}

void insert_graphs(SQLite::Database& db, const std::vector<GraphRow>& graphs) {
  SQLite::Statement insert{db, "INSERT INTO graphs VALUES(?,?,?,?,?,?,?,?,?,?)"};
  for (const GraphRow& g : graphs) {
    const Bytes content = compress_zstd(g.content);
    SealedRow row{insert};
    row << g.sha256 << g.name << g.file << std::int64_t{g.num_ops} << content << g.devices_toml << g.reserve
        << g.lower_bound_s << g.bound;
    row.insert();
  }
}

void insert_heuristics(SQLite::Database& db, const std::vector<HeuristicRow>& heuristics) {
  SQLite::Statement insert{db, "INSERT INTO baselines VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  for (const HeuristicRow& b : heuristics) {
    const std::string peaks = joined(b.peak_bytes);
    const Bytes placement = b.placement.empty() ? Bytes{} : pack_placements(b.placement, 1);
    SealedRow row{insert};
    row << b.graph_sha256 << b.method << std::int64_t{b.found} << std::int64_t{b.valid} << b.step_time_s
        << b.bytes_over << b.bytes_moved << peaks << sql(b.evaluations) << b.wall_s << b.note << placement;
    row.insert();
  }
}

}  // namespace

void insert_header(SQLite::Database& db, const RunFacts& facts, const std::vector<GraphRow>& graphs,
                   const std::vector<HeuristicRow>& heuristics) {
  insert_facts(db, facts);
  insert_graphs(db, graphs);
  insert_heuristics(db, heuristics);
}

Result<RunFacts> RunHeader::facts() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
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
    if (f.num_devices > kMaxDevices) throw std::runtime_error{"invalid number of devices"};
    for (std::string* text : {&f.run_id, &f.parent, &f.host_facts}) *text = q.getColumn(at++).getString();
    return f;
  });
}

Result<std::vector<GraphRow>> RunHeader::graphs() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
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

Result<std::vector<GraphFacts>> RunHeader::graph_facts() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db, "SELECT sha256, name, lower_bound_s FROM graphs ORDER BY rowid"};
    SQLite::Statement best{
        connection_->db,
        "SELECT method, step_time_s FROM baselines WHERE graph_sha256 = ? AND found = 1 AND "
        "valid = 1 ORDER BY step_time_s, rowid LIMIT 1"};
    std::vector<GraphFacts> rows;
    while (q.executeStep()) {
      GraphFacts& row = rows.emplace_back();
      row.sha256 = q.getColumn(0).getString();
      row.name = q.getColumn(1).getString();
      row.lower_bound_s = q.getColumn(2).getDouble();
      best.reset();
      best.bind(1, row.sha256);
      if (!best.executeStep()) continue;
      row.heuristic = best.getColumn(0).getString();
      row.heuristic_s = best.getColumn(1).getDouble();
    }
    return rows;
  });
}

Result<std::vector<HeuristicRow>> RunHeader::heuristics() const {
  return connection_->guarded([&] {
    SQLite::Statement q{connection_->db,
                        "SELECT graph_sha256, method, found, valid, step_time_s, bytes_over, bytes_moved, "
                        "peak_bytes, evaluations, wall_s, note, placement FROM baselines ORDER BY rowid"};
    std::vector<HeuristicRow> rows;
    while (q.executeStep()) {
      HeuristicRow& row = rows.emplace_back();
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

}  // namespace emplace::record
