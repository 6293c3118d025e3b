#pragma once
/// Letters of ASCII in lower case, for comparisons that ignore case.

#include <string>
#include <string_view>

namespace emplace {

/// Leaves all other bytes as they are, whatever the locale.
inline std::string lower_case(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace emplace
