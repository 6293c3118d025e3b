#pragma once
/// Words for people: suggestions for a misspelt name, and names made harmless for a terminal.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace emplace {

/// The candidate with the smallest edit distance to `word`, or empty if none is near (more than half its
/// length away).
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates);

/// `text` as UTF-8 in which nothing steers a terminal or turns the direction of what follows: control
/// characters, line and paragraph separators, marks of direction, and bytes that are no UTF-8 become \xNN or
/// \uNNNN. Characters of `kept` stay.
std::string inert_text(std::string_view text, std::string_view kept = {});

/// The same for a line that people read: a newline becomes \n, and what is longer than `max_length` bytes is
/// cut and ends in "…".
std::string printable(std::string_view text, std::size_t max_length = 200);
std::string printable_path(const std::filesystem::path& path);

/// The bytes as the text that they are, without a copy.
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// As a TOML basic string, in quotes; a reader gets the same text back. A byte that is no UTF-8 cannot stand
/// in TOML and becomes U+FFFD: where that matters, ask is_utf8 first.
std::string toml_text(std::string_view text);

/// True if `text` is UTF-8: no overlong form, no surrogate, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// The code points of a text; U+FFFD for every byte that belongs to none.
std::u32string code_points(std::string_view text);

/// As UTF-8, with U+FFFD for every byte that is none, and for NUL, which readers of text stop at.
std::string mended_utf8(std::string_view text);

}  // namespace emplace
