#pragma once
/// One page that explains a run.

#include <string>

#include "record/report/report_data.h"

namespace emplace::record {

/// One HTML page that loads nothing. No text of `data` can become markup or script; what is not UTF-8 is
/// mended. Below 5 MB: of schedules with more ops and copies than a page holds, neighbours are merged, and
/// the page says so. Pure; any thread.
std::string render_report(const ReportData& data);

}  // namespace emplace::record
