#pragma once
/// The page that explains a run, from what its directory holds.

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/settings/start.h"
#include "record/report/report_data.h"

namespace emplace::launcher {

/// What a page says, and the graphs that it points to.
struct RunReport {
  actors::TaskPtr task;  ///< Null if the graphs cannot be read any more (runs of schema 3).
  record::ReportData data;
};

/// Reads every start of a run, simulates its best placements and the best baselines once more. A run that
/// still goes on is read as it is. Errors: kInvalid if `directory` holds no run or a damaged one; kIo.
Result<RunReport> read_report(const std::filesystem::path& directory, const Clock& clock);

/// Reads and writes: `page` appears whole or not at all. The value is the report that was written. Errors: as
/// above.
Result<RunReport> write_report(const std::filesystem::path& directory, const std::filesystem::path& page,
                               const Clock& clock);

}  // namespace emplace::launcher
