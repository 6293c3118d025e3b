#pragma once
/// Keys typed at a terminal in raw mode.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::launcher {

struct Key {
  enum class Kind : std::uint8_t {
    kText,
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kEnter,
    kEscape,
    kBackspace
  };
  Kind kind = Kind::kText;
  std::string text;  ///< kText: one code point.
  bool operator==(const Key&) const = default;
};

/// Translates what a terminal sends to keys. Control characters, unknown escape sequences and bytes that are
/// not UTF-8 are dropped. Pure; one thread.
class KeyReader {
 public:
  /// Returns the keys that are complete. The rest waits for more bytes.
  std::vector<Key> feed(std::string_view bytes);
  /// Nothing more was typed: an escape character that waits is the key Escape; any other rest is dropped.
  std::vector<Key> idle();

 private:
  std::string rest_;
};

}  // namespace emplace::launcher
