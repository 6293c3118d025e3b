#include "launcher/cluster/supervision/node_lines.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace emplace::launcher {

namespace {

constexpr std::string_view kProgress = "progress ";
constexpr std::size_t kLongestFailure =
    16'000;  // [B] The log has the full text; the launcher cuts long lines.

/// Replaces invalid UTF-8, which paths and messages may contain.
std::string json_line(const char* key, const std::string& text) {
  return nlohmann::json{{key, text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string ready_line(const std::string& endpoint) { return json_line("ready", endpoint); }
std::string ending_line(const std::string& failure) {
  return json_line("ending", failure.substr(0, kLongestFailure));
}

NodeLine parse_node_line(const std::string& line) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  const auto text = [&](const char* key) {
    return parsed.is_object() && parsed.contains(key) && parsed[key].is_string();
  };
  if (text("ready")) return {NodeLine::Kind::kReady, parsed["ready"].get<std::string>()};
  if (text("ending")) return {NodeLine::Kind::kEnding, parsed["ending"].get<std::string>()};
  if (text("note")) return {NodeLine::Kind::kNote, parsed["note"].get<std::string>()};
  return {NodeLine::Kind::kOther, line};
}

std::string line_of(const messages::RunProgress& progress) {
  return std::string{kProgress} + to_base64(messages::encode_body(progress));
}

std::optional<messages::RunProgress> parse_progress(std::string_view line) {
  if (!line.starts_with(kProgress)) return std::nullopt;
  const auto body = from_base64(line.substr(kProgress.size()));
  if (!body) return std::nullopt;
  const auto progress = messages::decode_body<messages::RunProgress>(*body);
  return progress ? std::optional{*progress} : std::nullopt;
}

}  // namespace emplace::launcher
