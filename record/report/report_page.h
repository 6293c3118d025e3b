#pragma once
/// Renders the report page of a run.

#include <string>

#include "record/report/report_data.h"

namespace emplace::record {

/// One self-contained HTML page. No text of `data` can become markup or script; invalid UTF-8 is replaced.
/// The size stays below 5 MB: in schedules with too many ops and copies neighbours are merged, and the page
/// states this. Pure; any thread.
std::string render_report(const ReportData& data);

}  // namespace emplace::record
