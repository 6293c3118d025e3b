#pragma once
/// Read access to a run's database: one SQLite file in the run directory. Any SQLite tool can read it while
/// the run is in progress. docs/reference/run_database.md describes the tables.

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "record/checkpoints.h"
#include "record/remeasurements.h"
#include "record/run_header.h"
#include "record/run_log.h"
#include "record/run_results.h"

namespace emplace::record {

struct RunConnection;

/// How to read a run that another process may be writing. Readers never change the record.
enum class Reading : std::uint8_t {
  kInProgress,         ///< Reads the current state; the run may continue meanwhile.
  kQuiet,              ///< Requires that no process writes and locks out writers; no file changes.
  kQuietOrInProgress,  ///< kQuiet if no process writes the run, else kInProgress. For read-only commands.
};

/// Data is read through narrow views, which are cheap to copy and valid while this object exists. Each call
/// may fail: kInvalid if the file is damaged, kIo if it cannot be read. Thread: one, including views.
class RunReader {
 public:
  /// Errors: kIo if there is no run, or for a transient failure (read, descriptors, memory); kInvalid if
  /// the run is damaged, newer than this program, or (kQuiet) being written.
  static Result<std::unique_ptr<RunReader>> open(const std::filesystem::path& directory, Reading reading);
  virtual ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  RunHeader header() const { return RunHeader{*connection_}; }
  RunLog log() const { return RunLog{*connection_}; }
  RunResults results() const { return RunResults{*connection_}; }
  Checkpoints checkpoints() const { return Checkpoints{*connection_}; }
  Remeasurements remeasurements() const { return Remeasurements{*connection_}; }

  /// Verifies all hashes: the chain of episodes, the seal of each row, SQLite's own structure. Errors:
  /// kInvalid, naming the first damaged row; kIo if the file cannot be read.
  Result<Unit> verify() const;

 protected:
  explicit RunReader(std::unique_ptr<RunConnection> connection);
  RunConnection& connection() const { return *connection_; }

 private:
  const std::unique_ptr<RunConnection> connection_;
};

}  // namespace emplace::record
