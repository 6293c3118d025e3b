#pragma once
/// Lists of words in one text, such as the op types of a table's row.

#include <algorithm>
#include <string_view>
#include <vector>

namespace emplace {

/// The words of a text that spaces separate, in order; spaces in a row separate once, and no other character
/// does. The words are parts of `text`, which must outlive them.
inline std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace emplace
