#pragma once
/// A page that opens from disk: style, data and scripts are inside, and its policy permits nothing else.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace emplace::record {

/// `title` and `body` are HTML, escaped already; the scripts run in order after the data is there.
std::string saved_page(std::string_view title, std::string_view body, const nlohmann::json& data,
                       std::span<const std::string_view> scripts);

/// A script without its reference to a source map, which is useless in a page.
std::string_view without_source_map(std::string_view script);

}  // namespace emplace::record
