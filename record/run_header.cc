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
  row << kSchemaVersion << facts;
  row.insert();
}

void insert_graphs(SQLite::Database& db, const std::vector<GraphRow>& graphs) {
  SQLite::Statement insert{db, "INSERT INTO graphs VALUES(?,?,?,?,?,?,?,?,?,?)"};
  for (const GraphRow& g : graphs) {
    const Bytes content = compress_zstd(g.content);
    SealedRow row{insert};
    row << g.sha256 << g.name << g.file << g.num_ops << content << g.devices_toml << g.reserve
        << g.lower_bound_s << g.bound;
    row.insert();
  }
}

void insert_heuristics(SQLite::Database& db, const std::vector<HeuristicRow>& heuristics) {
  SQLite::Statement insert{db, "INSERT INTO baselines VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  for (const HeuristicRow& b : heuristics) {
    const Bytes placement = b.placement.empty() ? Bytes{} : pack_placements(b.placement, 1);
    SealedRow row{insert};
    row << b << placement;
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
    SQLite::Statement q{connection_->db, "SELECT * FROM runs"};
    q.executeStep();
    RunFacts facts;
    RowReader row{q};
    row.next();  // The schema version.
    row >> facts;
    if (facts.num_devices > kMaxDevices) throw std::runtime_error{"invalid number of devices"};
    return facts;
  });
}

Result<std::vector<GraphRow>> RunHeader::graphs() const {
  return connection_->rows("SELECT * FROM graphs ORDER BY rowid", [](SQLite::Statement& q) {
    GraphRow graph;
    RowReader row{q};
    row >> graph.sha256 >> graph.name >> graph.file >> graph.num_ops;
    graph.content = unpacked(row.next(), "graph");
    row >> graph.devices_toml >> graph.reserve >> graph.lower_bound_s >> graph.bound;
    return graph;
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
  return connection_->rows("SELECT * FROM baselines ORDER BY rowid", [](SQLite::Statement& q) {
    HeuristicRow heuristic;
    RowReader row{q};
    row >> heuristic;
    const SQLite::Column placement = row.next();
    if (placement.getBytes() > 0) heuristic.placement = placements_of(placement);
    return heuristic;
  });
}

}  // namespace emplace::record
