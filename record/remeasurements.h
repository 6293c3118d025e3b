#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/statistics.h"

namespace SQLite {
class Database;
}

namespace emplace::record {

struct RunConnection;

/// A placement of the log, measured again by another executor.
struct RemeasuredRow {
  std::uint64_t placement_id = 0;
  std::string graph_sha256;
  double logged_s = 0;  ///< Step time in the log [s].
  bool valid = false;
  double step_time_s = 0;
  double synthetic_share = 0;
  std::string error;  ///< Why there is no measurement; empty: there is one.
};

/// One `replay --re-measure`, with the agreement between its times and those of the log.
struct RemeasureSession : Agreement {
  std::uint64_t session = 0;  ///< Session number, from 1.
  std::string executor_kind, host;
  std::int64_t started_wall_ns = 0;
};

/// Placements of a run's log that were measured again, by session. A view of an open run
/// (record/run_reader.h).
class Remeasurements {
 public:
  explicit Remeasurements(RunConnection& connection) : connection_{&connection} {}
  Result<std::vector<RemeasureSession>> sessions() const;
  Result<std::vector<RemeasuredRow>> rows(std::uint64_t session) const;

 private:
  RunConnection* connection_;
};

/// Inserts the rows as the next session and sets `session.session` to its number. Throws what SQLite
/// throws.
void insert_remeasured(SQLite::Database& db, RemeasureSession& session,
                       const std::vector<RemeasuredRow>& rows);

}  // namespace emplace::record
