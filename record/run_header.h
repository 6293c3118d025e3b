#pragma once

#include <vector>

#include "base/result.h"
#include "record/store/run_rows.h"

namespace SQLite {
class Database;
}

namespace emplace::record {

struct RunConnection;

/// What a run began with: its facts, its graphs, and what methods that nobody trained made of them. Written
/// once and never changed. A view of an open run (record/run_reader.h).
class RunHeader {
 public:
  explicit RunHeader(RunConnection& connection) : connection_{&connection} {}
  Result<RunFacts> facts() const;
  Result<std::vector<GraphRow>> graphs() const;  ///< In the order of the config; none in runs of schema 3.
  Result<std::vector<BaselineRow>> baselines() const;  ///< As the table shows them; none in runs of schema 3.

 private:
  RunConnection* connection_;
};

/// Into empty tables. Throws what SQLite throws.
void insert_header(SQLite::Database& db, const RunFacts& facts, const std::vector<GraphRow>& graphs,
                   const std::vector<BaselineRow>& baselines);

}  // namespace emplace::record
