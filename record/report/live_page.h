#pragma once
/// The page of a run in progress: the files that a server hands to a browser, and the report in it.

#include <span>
#include <string>
#include <string_view>

#include "record/report/report_data.h"

namespace emplace::record {

/// A file of the page.
struct LiveAsset {
  std::string_view name, type, bytes;  ///< `type`: its media type.
};

/// "index.html" first, which names the others as assets/NAME and takes its data from events, nodes.json and
/// report.json beside it. No file depends on a run. No markup has inline script or style, so a content
/// security policy of 'self' suffices. Static; any thread.
std::span<const LiveAsset> live_assets();

/// The report as a JSON object for the page: {"run", "written", "in_progress", "main": HTML, "data"}. At most
/// 2 MB: it has less detail than render_report, which takes the same data. Pure; any thread.
std::string report_fragment(const ReportData& data);

}  // namespace emplace::record
