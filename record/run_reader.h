#pragma once
/// A run's database, open to be read: one SQLite file in the run directory, readable by any SQLite tool while
/// the run goes on. docs/reference/run_database.md describes the tables.

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

/// What a reader asks of a run that somebody may write. Readers never change what is recorded.
enum class Reading : std::uint8_t {
  kLive,         ///< As far as it has come; it may go on meanwhile.
  kQuiet,        ///< While nobody writes it, and it stays so: not a file changes.
  kQuietOrLive,  ///< For who only looks: quietly where nobody writes, else live.
};

/// What is read lies in narrow views, which are cheap to copy and valid while this object lives. Each of
/// their calls may fail: kInvalid if the file is damaged, kIo if it cannot be read. Thread: one, views
/// included.
class RunReader {
 public:
  /// Errors: kIo if there is no run, or for what may pass (a read that fails, no descriptor, no memory);
  /// kInvalid if it is damaged, newer than this program, or (kQuiet) being written.
  static Result<std::unique_ptr<RunReader>> open(const std::filesystem::path& directory, Reading reading);
  virtual ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  RunHeader header() const { return RunHeader{*connection_}; }
  RunLog log() const { return RunLog{*connection_}; }
  RunResults results() const { return RunResults{*connection_}; }
  Checkpoints checkpoints() const { return Checkpoints{*connection_}; }
  Remeasurements remeasurements() const { return Remeasurements{*connection_}; }

  /// Holds everything against its hashes: the chain of episodes, each row's seal, SQLite's own structure.
  /// Errors: kInvalid, naming the first damaged row; kIo if it cannot be read.
  Result<Unit> verify() const;

 protected:
  explicit RunReader(std::unique_ptr<RunConnection> connection);
  RunConnection& connection() const { return *connection_; }

 private:
  const std::unique_ptr<RunConnection> connection_;
};

}  // namespace emplace::record
