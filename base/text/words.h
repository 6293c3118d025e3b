#pragma once
/// Text for people: suggestions for misspelt names, and names made safe for a terminal.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace emplace {

/// The candidate with the smallest edit distance to `word`; empty if the distance of all is above half of its
/// length.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates);

/// Returns `text` as UTF-8 that is safe for a terminal: control characters, line and paragraph separators,
/// direction marks and bytes that are not UTF-8 become \xNN or \uNNNN. Characters in `kept` stay.
std::string without_controls(std::string_view text, std::string_view kept = {});

/// As without_controls, for one line: a newline becomes "\n", and text longer than `max_length` bytes is cut
/// and ends in "…".
std::string printable(std::string_view text, std::size_t max_length = 200);
std::string printable_path(const std::filesystem::path& path);

/// Views bytes as text, without a copy.
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Quotes `text` as a TOML basic string that reads back unchanged. TOML cannot hold bytes that are not UTF-8;
/// they become U+FFFD (check is_utf8 first where that matters).
std::string toml_text(std::string_view text);

/// Quotes one word for a POSIX shell, if it needs quotes.
std::string shell_word(const std::string& word);

/// Returns whether `text` is UTF-8: no overlong form, no surrogate, no code point above U+10FFFF.
bool is_utf8(std::string_view text);

/// Returns `text` as UTF-8, with U+FFFD for every invalid byte, and for NUL, which text readers stop at.
std::string to_valid_utf8(std::string_view text);

}  // namespace emplace
