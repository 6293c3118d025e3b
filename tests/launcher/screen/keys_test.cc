// Goal: keys of any terminal are recognised however the bytes arrive, and no other sequence is taken for a
// command. Method: the bytes of several terminals, whole and split at each place.
#include "launcher/screen/keys.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace emplace::launcher {
namespace {

using Kind = Key::Kind;
const std::vector<Key> kNothing;

std::vector<Key> typed(std::string_view bytes) { return KeyReader{}.feed(bytes); }

TEST(KeyReader, ReadsKeysOfSeveralTerminals) {
  for (const char* up : {"\x1b[A", "\x1bOA"}) EXPECT_EQ(typed(up), (std::vector<Key>{{Kind::kUp, ""}}));
  for (const char* end : {"\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"})
    EXPECT_EQ(typed(end), (std::vector<Key>{{Kind::kEnd, ""}}));
  EXPECT_EQ(typed("\x1b[6~q"), (std::vector<Key>{{Kind::kPageDown, ""}, {Kind::kText, "q"}}));
  EXPECT_EQ(typed("\r\n\x7f\b"),
            (std::vector<Key>{
                {Kind::kEnter, ""}, {Kind::kEnter, ""}, {Kind::kBackspace, ""}, {Kind::kBackspace, ""}}));
  EXPECT_EQ(typed("ä…"), (std::vector<Key>{{Kind::kText, "ä"}, {Kind::kText, "…"}}));
}

TEST(KeyReader, AcceptsBytesSplitAnywhere) {
  const std::string bytes = "s\x1b[A/ä\x1b[15~\x1b[1;5Cq";
  const std::vector<Key> whole = typed(bytes);
  ASSERT_EQ(whole.size(), 5u) << "unknown sequences are dropped";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    KeyReader reader;
    std::vector<Key> keys = reader.feed(bytes.substr(0, cut));
    for (Key& key : reader.feed(bytes.substr(cut))) keys.push_back(std::move(key));
    EXPECT_EQ(keys, whole) << cut;
  }
}

TEST(KeyReader, ReportsEscapeOnceNothingFollows) {
  KeyReader reader;
  EXPECT_EQ(reader.feed("\x1b"), kNothing);
  EXPECT_EQ(reader.idle(), (std::vector<Key>{{Kind::kEscape, ""}}));
  EXPECT_EQ(reader.idle(), kNothing);
  EXPECT_EQ(reader.feed("\x1bq"), (std::vector<Key>{{Kind::kEscape, ""}, {Kind::kText, "q"}}));
  EXPECT_EQ(reader.feed("\x1b\x1b[A"), (std::vector<Key>{{Kind::kEscape, ""}, {Kind::kUp, ""}}));
  EXPECT_EQ(reader.feed("\x1b["), kNothing);
  EXPECT_EQ(reader.idle(), kNothing) << "half a sequence is no key";
  EXPECT_EQ(reader.feed("A"), (std::vector<Key>{{Kind::kText, "A"}}));
}

TEST(KeyReader, TextIsOneCodePointAndNeverAControlCharacter) {
  Rng rng{20'261'123, Purpose::kTest};
  for (int round = 0; round < 2'000; ++round) {
    KeyReader reader;
    std::string bytes;
    for (std::uint32_t i = rng.below(40); i > 0; --i)
      bytes += rng.below(4) == 0 ? '\x1b' : static_cast<char>(rng.below(256));
    std::vector<Key> keys = reader.feed(bytes);
    for (Key& key : reader.idle()) keys.push_back(std::move(key));
    for (const Key& key : keys) {
      if (key.kind != Kind::kText) continue;
      ASSERT_FALSE(key.text.empty());
      EXPECT_GE(static_cast<unsigned char>(key.text[0]), 0x20u);
      EXPECT_LE(key.text.size(), 4u);
    }
    EXPECT_EQ(reader.feed("q").size(), 1u) << "nothing before it is left over";
  }
}

}  // namespace
}  // namespace emplace::launcher
