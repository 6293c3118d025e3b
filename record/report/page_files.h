#pragma once
/// The page's own files, as they stand in the program (record/report/embed.cmake makes them of
/// record/report/page.* and of Debian's libjs-dygraphs).

#include <string_view>

namespace emplace::record::page {

extern const std::string_view kHtml;  ///< With {{names}} where something goes.
extern const std::string_view kCss, kScript, kDygraphs, kDygraphsLicence;

}  // namespace emplace::record::page
