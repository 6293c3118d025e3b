#pragma once
/// How JSON is written: what a command prints with --json, and the objects in the files and records beside
/// it.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace emplace::launcher {

/// Keys keep the order in which they were added.
using Json = nlohmann::ordered_json;

/// Two spaces per level. Numbers that are not finite become null; bytes that are not UTF-8 are replaced by
/// U+FFFD. Pure; any thread.
std::string json_text(const Json& value);

}  // namespace emplace::launcher
