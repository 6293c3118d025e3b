#include "launcher/screen/keys.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "base/text/words.h"

namespace emplace::launcher {
namespace {

constexpr char kEscape = '\x1b';

struct Sequence {
  std::string_view bytes;
  Key::Kind kind;
};
/// After the escape character; in the forms of xterm, the Linux console and application mode.
constexpr Sequence kSequences[]{
    {"[A", Key::Kind::kUp},     {"OA", Key::Kind::kUp},      {"[B", Key::Kind::kDown},
    {"OB", Key::Kind::kDown},   {"[5~", Key::Kind::kPageUp}, {"[6~", Key::Kind::kPageDown},
    {"[H", Key::Kind::kHome},   {"OH", Key::Kind::kHome},    {"[1~", Key::Kind::kHome},
    {"[7~", Key::Kind::kHome},  {"[F", Key::Kind::kEnd},     {"OF", Key::Kind::kEnd},
    {"[4~", Key::Kind::kEnd},   {"[8~", Key::Kind::kEnd},    {"OM", Key::Kind::kEnter},
    {"[D", Key::Kind::kEscape}, {"OD", Key::Kind::kEscape},  // Left: back.
    {"[C", Key::Kind::kEnter},  {"OC", Key::Kind::kEnter},   // Right: opens.
};

/// Returns the length of the sequence at the start of `text`, escape character included; 0: it is incomplete.
std::size_t sequence_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] == 'O') return text.size() < 3 ? 0 : 3;
  if (text[1] != '[') return 1;  // The key Escape, then another key.
  for (std::size_t i = 2; i < text.size(); ++i)
    if (text[i] >= '@' && text[i] <= '~') return i + 1;
  return 0;
}

/// Returns the length of the UTF-8 sequence that this byte starts; 0: it starts none.
std::size_t code_point_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80                   ? 1
         : byte >= 0xC2 && byte < 0xE0 ? 2
         : byte >= 0xE0 && byte < 0xF0 ? 3
         : byte >= 0xF0 && byte < 0xF5 ? 4
                                       : 0;
}

std::optional<Key> key_of(std::string_view text) {
  if (text == "\r" || text == "\n") return Key{Key::Kind::kEnter, ""};
  if (text == "\x7f" || text == "\b") return Key{Key::Kind::kBackspace, ""};
  if (text.size() == 1 && static_cast<unsigned char>(text[0]) < 0x20) return std::nullopt;
  if (!is_utf8(text)) return std::nullopt;
  return Key{Key::Kind::kText, std::string{text}};
}

}  // namespace

std::vector<Key> KeyReader::feed(std::string_view bytes) {
  rest_.append(bytes);
  std::vector<Key> keys;
  std::string_view left = rest_;
  while (!left.empty()) {
    const bool escape = left[0] == kEscape;
    const std::size_t length = escape ? sequence_length(left) : code_point_length(left[0]);
    if (escape ? length == 0 : length > left.size()) break;
    const std::string_view one = left.substr(0, length == 0 ? 1 : length);
    left.remove_prefix(one.size());
    if (escape && length == 1) {
      keys.push_back({Key::Kind::kEscape, ""});
    } else if (escape) {
      for (const Sequence& known : kSequences)
        if (one.substr(1) == known.bytes) keys.push_back({known.kind, ""});
    } else if (auto key = key_of(one)) {
      keys.push_back(*std::move(key));
    }
  }
  rest_ = std::string{left};
  constexpr std::size_t kLongest = 32;
  if (rest_.size() > kLongest) rest_.clear();  // No terminal sends such a sequence.
  return keys;
}

std::vector<Key> KeyReader::idle() {
  const std::string rest = std::exchange(rest_, {});
  if (rest.size() == 1 && rest[0] == kEscape) return {{Key::Kind::kEscape, ""}};
  return {};
}

}  // namespace emplace::launcher
