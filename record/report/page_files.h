#pragma once
/// Files embedded in the page (cmake/embed.cmake generates them from its .html, .css and .js files
/// and Debian's libjs-dygraphs).

#include <string_view>

namespace emplace::record::page {

extern const std::string_view kHtml;      ///< Template of saved pages with {{names}} as placeholders.
extern const std::string_view kLiveHtml;  ///< The live page.
/// kScript: charts of a report. kStatus: the state of a run's nodes.
extern const std::string_view kCss, kCommon, kScript, kStatus, kLive, kRuns, kDygraphs, kDygraphsLicence;

}  // namespace emplace::record::page
