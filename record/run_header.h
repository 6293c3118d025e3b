#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "record/store/run_rows.h"

namespace SQLite {
class Database;
}

namespace emplace::record {

struct RunConnection;

/// A graph of a run without its content.
struct GraphFacts {
  std::string sha256, name;
  double lower_bound_s = 0;  ///< 0: unknown.
  std::string heuristic;     ///< Method with the fastest valid placement; empty: none is recorded.
  double heuristic_s = 0;    ///< Its step time [s].
};

/// The constant part of a run: its facts, its graphs, and the heuristics, placements by untrained methods.
/// Written once, never changed. A view of an open run (record/run_reader.h).
class RunHeader {
 public:
  explicit RunHeader(RunConnection& connection) : connection_{&connection} {}
  Result<RunFacts> facts() const;
  Result<std::vector<GraphRow>> graphs() const;  ///< Graphs in config order; empty for runs of schema 3.
  /// The same graphs, read in less than a millisecond.
  Result<std::vector<GraphFacts>> graph_facts() const;
  /// Heuristics in table order; empty for runs of schema 3.
  Result<std::vector<HeuristicRow>> heuristics() const;

 private:
  RunConnection* connection_;
};

/// Inserts the header into empty tables. Throws what SQLite throws.
void insert_header(SQLite::Database& db, const RunFacts& facts, const std::vector<GraphRow>& graphs,
                   const std::vector<HeuristicRow>& heuristics);

}  // namespace emplace::record
