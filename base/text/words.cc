#include "base/text/words.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace emplace {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 2, 1) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

namespace {

/// The length [B] of the code point that starts at `at`; 0 if it is invalid.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t more = first < 0x80 ? 0 : first < 0xc2 ? 4 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  if (first > 0xf4 || more == 4 || more >= text.size() - at) return 0;
  for (std::size_t k = 1; k <= more; ++k) {
    const auto next = static_cast<unsigned char>(text[at + k]);
    const unsigned low = k > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = k > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (next < low || next > high) return 0;
  }
  return more + 1;
}

/// Decodes the code point. @pre `length` is utf8_length(text, at).
char32_t code_point(std::string_view text, std::size_t at, std::size_t length) {
  constexpr unsigned kFirstBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t point = static_cast<unsigned char>(text[at]) & kFirstBits[length];
  for (std::size_t k = 1; k < length; ++k)
    point = point << 6 | (static_cast<unsigned char>(text[at + k]) & 0x3fu);
  return point;
}

/// Returns whether a character moves the cursor, changes the terminal's state, or changes text position or
/// direction.
bool is_unsafe(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool separator = c == 0x2028 || c == 0x2029;
  const bool direction = c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                         (c >= 0x2066 && c <= 0x2069);
  return control || separator || direction;
}

/// A character of a text and its safe form.
struct EscapedCharacter {
  std::size_t bytes;  ///< Length in the text [B].
  std::string as;
};
EscapedCharacter escape_at(std::string_view text, std::size_t at, std::string_view kept) {
  const std::size_t length = utf8_length(text, at);
  if (length == 0) return {1, fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]))};
  const std::string_view character = text.substr(at, length);
  const char32_t c = code_point(text, at, length);
  if (!is_unsafe(c) || kept.find(character) != std::string_view::npos)
    return {length, std::string{character}};
  const auto number = static_cast<std::uint32_t>(c);
  return {length, number < 0x100 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number)};
}

}  // namespace

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view{"_-./:=@%+,"}.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return quoted + "'";
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const char c = text[i];
    constexpr std::string_view kNamed = "\b\t\n\f\r\"\\", kNames = "btnfr\"\\";
    if (const std::size_t named = kNamed.find(c); named != std::string_view::npos) {
      out.append("\\").append(1, kNames[named]);
    } else if (length == 1 && is_unsafe(static_cast<unsigned char>(c))) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      out += length == 0 ? "\xef\xbf\xbd" : text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out + "\"";
}

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const EscapedCharacter escaped = escape_at(text, i, kept);
    out += escaped.as;
    i += escaped.bytes;
  }
  return out;
}

std::string printable_path(const std::filesystem::path& path) { return printable(path.string()); }

std::string printable(std::string_view text, std::size_t max_length) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (out.size() >= max_length) return out + "…";
    const EscapedCharacter escaped = escape_at(text, i, {});
    out += text[i] == '\n' ? "\\n" : escaped.as;
    i += escaped.bytes;
  }
  return out;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = text[i] == '\0' ? 0 : utf8_length(text, i);
    valid += length == 0 ? "\xef\xbf\xbd" : text.substr(i, length);
    i += std::max<std::size_t>(length, 1);
  }
  return valid;
}

}  // namespace emplace
