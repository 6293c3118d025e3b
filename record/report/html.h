#pragma once
/// HTML text and numbers of the page. Nothing from a file can become markup or script. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace emplace::record {

/// Escapes a text for an element or a double-quoted attribute; invalid UTF-8 is replaced. Newlines stay.
std::string escaped(std::string_view text);
/// A name from a file as element content: control characters are shown as escapes.
std::string shown(std::string_view name, std::size_t most = 200);
/// JSON that cannot end or start a script element.
std::string inert(const nlohmann::json& value);

/// <tag attributes>content</tag>. `content` must be escaped already; the others must not come from files.
std::string element(std::string_view tag, std::string_view content, std::string_view attributes = "");

std::string percent(double share);  ///< "12 %"; values below one have one more digit.
/// Same format as on the command line, except for the micro sign.
std::string seconds(double value);

}  // namespace emplace::record
