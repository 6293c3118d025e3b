#pragma once
/// JSON output: of commands with --json, and of objects in files and records.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace emplace::launcher {

/// Keys keep the order in which they were added.
using Json = nlohmann::ordered_json;

/// Formats JSON with two spaces per level. Numbers that are not finite become null; invalid UTF-8 is replaced
/// by U+FFFD. Pure; any thread.
std::string json_text(const Json& value);

}  // namespace emplace::launcher
