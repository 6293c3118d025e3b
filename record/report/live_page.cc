#include "record/report/live_page.h"

#include <array>

#include "record/report/page_files.h"
#include "record/report/saved_page.h"

namespace emplace::record {

std::span<const LiveAsset> live_assets() {
  constexpr std::string_view kHtml = "text/html; charset=utf-8", kCss = "text/css; charset=utf-8",
                             kJs = "text/javascript; charset=utf-8";
  static const std::array<LiveAsset, 7> assets{{{"index.html", kHtml, page::kLiveHtml},
                                                {"page.css", kCss, page::kCss},
                                                {"common.js", kJs, page::kCommon},
                                                {"dygraphs.js", kJs, without_source_map(page::kDygraphs)},
                                                {"status.js", kJs, page::kStatus},
                                                {"page.js", kJs, page::kScript},
                                                {"live.js", kJs, page::kLive}}};
  return assets;
}

}  // namespace emplace::record
