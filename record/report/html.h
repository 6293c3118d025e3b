#pragma once
/// Text and numbers as the page writes them: nothing that comes from a file can become markup or script.
/// Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace emplace::record {

/// As the content of an element or of an attribute in double quotes; what is not UTF-8 is mended. Newlines
/// stay.
std::string escaped(std::string_view text);
/// A name from a file, in an element: control characters are shown, not kept.
std::string shown(std::string_view name, std::size_t most = 200);
/// JSON in which nothing can end a script element, or begin one.
std::string inert(const nlohmann::json& value);

/// <tag attributes>content</tag>; only `content` may come from elsewhere, and is escaped already.
std::string element(std::string_view tag, std::string_view content, std::string_view attributes = "");

std::string percent(double share);  ///< "12 %"; of less than one with a digit more.
/// As the command line has it, but for the sign of a micro.
std::string seconds(double value);
std::string thousands(std::uint64_t number);                    ///< "13,581"
std::string plural(std::uint64_t count, std::string_view one);  ///< "2 placements"

}  // namespace emplace::record
