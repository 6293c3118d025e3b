#include "launcher/status/http.h"

#include <algorithm>
#include <charconv>

namespace emplace::launcher {
namespace {

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] == '%' && i + 2 < text.size() &&
               std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

HttpReply reply(int status, std::string type, std::string body) {
  return {status, std::move(type), std::make_shared<const std::string>(std::move(body)), {}, false};
}

HttpReply line_reply(int status, std::string_view line) {
  return reply(status, HttpReply{}.type, std::string{line} + "\n");
}

std::map<std::string, std::string> parse_form(std::string_view text) {
  std::map<std::string, std::string> values;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    values[decoded(pair.substr(0, equals))] =
        equals == std::string_view::npos ? std::string{} : decoded(pair.substr(equals + 1));
  }
  return values;
}

void parse_target(std::string_view target, HttpRequest& request) {
  const std::size_t mark = target.find('?');
  request.path = std::string{target.substr(0, mark)};
  request.query.clear();
  if (mark != std::string_view::npos) request.query = parse_form(target.substr(mark + 1));
}

}  // namespace emplace::launcher
