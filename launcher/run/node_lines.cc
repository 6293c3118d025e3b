#include "launcher/run/node_lines.h"

#include <nlohmann/json.hpp>

namespace emplace::launcher {

using nlohmann::json;

std::string ready_line(const std::string& endpoint) { return json{{"ready", endpoint}}.dump(); }

std::string ending_line(const std::string& failure) {
  return json{{"ending", failure}}.dump(-1, ' ', false, json::error_handler_t::replace);
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
