#pragma once
/// Files embedded in the page (record/report/embed.cmake generates them from record/report/page.* and
/// Debian's libjs-dygraphs).

#include <string_view>

namespace emplace::record::page {

extern const std::string_view kHtml;  ///< Template with {{names}} as placeholders.
extern const std::string_view kCss, kScript, kDygraphs, kDygraphsLicence;

}  // namespace emplace::record::page
