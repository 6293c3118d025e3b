#pragma once
/// The report page of a run, made from its directory.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/settings/start.h"
#include "record/report/report_data.h"

namespace emplace::launcher {

/// The data of a report, and the graphs that it refers to.
struct RunReport {
  actors::TaskPtr task;  ///< Null if the graph files can no longer be read (runs of schema 3).
  std::vector<std::shared_ptr<const OpGraph>>
      planned;  ///< Graphs with the memory plans of placements that are drawn.
  record::ReportData data;
};

/// Reads every start of a run and simulates its best placements and the best heuristics again. A run in
/// progress is read in its current state. Errors: kInvalid if `directory` has no run or a damaged one; kIo.
Result<RunReport> read_report(const std::filesystem::path& directory, const Clock& clock);

/// Reads a run and writes its report atomically to `page`. Returns the report that was written. Errors: those
/// of read_report(); kIo.
Result<RunReport> write_report(const std::filesystem::path& directory, const std::filesystem::path& page,
                               const Clock& clock);

}  // namespace emplace::launcher
