#pragma once
/// Logged placements on another executor: how far can the log's times be trusted there?

#include <functional>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "launcher/replay/logged_run.h"
#include "launcher/worker/executors.h"
#include "record/remeasurements.h"

namespace emplace::launcher {

struct RemeasureRequest {
  std::string kind = "sim";          ///< Of the executor.
  std::string devices;               ///< Device file with as many devices; empty: those of the run.
  std::string dispatch = "program";  ///< Of a simulator.
  std::uint64_t count = 200;         ///< Placements, most.
  std::uint64_t from = 0, to = 0;    ///< Log numbers (episodes.seq) that they are taken from; 0: no limit.
  ProcessRequest process = {};       ///< Of an executor that lives in a process.
};

struct Remeasured {
  record::RemeasureSession session;
  std::vector<record::RemeasuredRow> rows;
  std::uint64_t distinct = 0;  ///< Placements that fitted in the log, each counted once.
};
/// After each of so many. False: end here.
using RemeasureWatcher = std::function<bool(std::uint64_t done, std::uint64_t of)>;

/// A fifth of the placements are the fastest of the log, the others lie evenly between the fastest and the
/// slowest; each is measured once. The run is not written: keep_remeasured does that. Errors: kInvalid, if no
/// placement in the range fitted, or the executor is not for this machine; kUnsupported.
Result<Remeasured> remeasure(LoggedRun& run, const RemeasureRequest& request,
                             const RemeasureWatcher& watcher);

/// Writes it to the run's database, which nobody else may have open. Errors: kInvalid, kIo.
Result<Unit> keep_remeasured(const std::filesystem::path& directory, Remeasured& remeasured);

}  // namespace emplace::launcher
