#include "launcher/cluster/node_lines.h"

#include <nlohmann/json.hpp>

namespace emplace::launcher {

using nlohmann::json;

namespace {

constexpr std::size_t kLongestFailure = 16'000;  // [B] More is for the log; the launcher cuts lines, too.

/// Paths and messages may hold bytes that are not UTF-8; JSON may not.
std::string line_of(const char* key, const std::string& text) {
  return json{{key, text}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string ready_line(const std::string& endpoint) { return line_of("ready", endpoint); }
std::string ending_line(const std::string& failure) {
  return line_of("ending", failure.substr(0, kLongestFailure));
}

NodeLine parse_node_line(const std::string& line) {
  const json parsed = json::parse(line, nullptr, false);
  const auto text = [&](const char* key) {
    return parsed.is_object() && parsed.contains(key) && parsed[key].is_string();
  };
  if (text("ready")) return {NodeLine::Kind::kReady, parsed["ready"].get<std::string>()};
  if (text("ending")) return {NodeLine::Kind::kEnding, parsed["ending"].get<std::string>()};
  return {NodeLine::Kind::kProgress, line};
}

}  // namespace emplace::launcher
