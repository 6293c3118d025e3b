#pragma once
/// Words for people: suggestions for a misspelt name, and names made harmless for a terminal.

#include <span>
#include <string>
#include <string_view>

namespace emplace {

/// The candidate with the smallest edit distance to `word`, or empty if none is near (more than half its
/// length away).
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates);

/// `text` with control characters shown as \xNN (a newline as \n), so that no name from a file can move a
/// cursor. UTF-8 passes, except C1 controls. Cut to `max_length` bytes with "…" if longer.
std::string printable(std::string_view text, std::size_t max_length = 200);

/// As a TOML string: in quotes, with what would end it escaped.
std::string toml_text(std::string_view text);

/// True if `text` is UTF-8: no overlong form, no surrogate, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// The code points of a text; U+FFFD for every byte that belongs to none.
std::u32string code_points(std::string_view text);

/// As UTF-8, with U+FFFD for every byte that is none, and for NUL, which readers of text stop at.
std::string mended_utf8(std::string_view text);

}  // namespace emplace
