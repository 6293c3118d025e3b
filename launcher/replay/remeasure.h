#pragma once
/// Measures logged placements on another executor, to check how far the log's times hold there.

#include <functional>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "launcher/replay/recorded_run.h"
#include "launcher/worker/executors.h"
#include "record/remeasurements.h"

namespace emplace::launcher {

struct RemeasureRequest {
  std::string kind = "sim";  ///< Kind of the executor.
  std::string devices;       ///< Device file with the same number of devices; empty: those of the run.
  std::string dispatch = "program";  ///< Dispatch order of the simulator.
  std::uint64_t count = 200;         ///< Maximum number of placements.
  std::uint64_t from = 0, to = 0;    ///< Range of log numbers (episodes.seq); 0: no limit.
  ProcessRequest process = {};       ///< Options of an executor process.
};

struct Remeasured {
  record::RemeasureSession session;
  std::vector<record::RemeasuredRow> rows;
  std::uint64_t distinct = 0;  ///< Distinct feasible placements of the log.
};
/// Called after each of `of` placements. Returns false to stop.
using RemeasureWatcher = std::function<bool(std::uint64_t done, std::uint64_t of)>;

/// Measures each of `count` placements once: one fifth are the fastest of the log, the others are spread
/// evenly over the rest. Does not write to the run (see keep_remeasured()). Errors: kInvalid if no placement
/// in the range is feasible, or the executor does not work with this machine; kUnsupported.
Result<Remeasured> remeasure(RecordedRun& run, const RemeasureRequest& request,
                             const RemeasureWatcher& watcher);

/// Writes the results to the run's database. @pre no other process has it open. Errors: kInvalid, kIo.
Result<Unit> keep_remeasured(const std::filesystem::path& directory, Remeasured& remeasured);

}  // namespace emplace::launcher
