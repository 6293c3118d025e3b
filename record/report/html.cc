#include "record/report/html.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text/words.h"
#include "base/units.h"

namespace emplace::record {
std::string escaped(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array<std::string_view, kSpecial.size()> kEntities{"&amp;", "&lt;", "&gt;", "&quot;",
                                                                    "&#39;"};
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    const std::size_t special = kSpecial.find(c);
    special == std::string_view::npos ? out += c : out += kEntities[special];
  }
  return out;
}

std::string shown(std::string_view name, std::size_t most) { return escaped(printable(name, most)); }

std::string inert(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else if (text.compare(i, 3, "\xE2\x80\xA8") == 0 || text.compare(i, 3, "\xE2\x80\xA9") == 0) {
      out += text[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string element(std::string_view tag, std::string_view content, std::string_view attributes) {
  std::string out = "<" + std::string{tag};
  if (!attributes.empty()) out.append(" ").append(attributes);
  return out + ">" + std::string{content} + "</" + std::string{tag} + ">";
}

std::string percent(double share) {
  return fmt::format("{:.{}f} %", share * 100, share != 0 && std::abs(share) < 0.00995 ? 1 : 0);
}

std::string seconds(double value) {
  std::string text = format_seconds(value);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 1, "µ");
  return text;
}

}  // namespace emplace::record
