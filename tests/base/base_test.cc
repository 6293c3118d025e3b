// Goal: the types and functions that all floors use keep their contracts.
// Method: published known answers for the generator and the hash, round trips and refusals for the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"
#include "base/units.h"
#include "tests/support/manual_clock.h"

namespace emplace {
namespace {

TEST(Philox, MatchesTheKnownAnswersOfRandom123) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, StreamsDependOnSeedPurposeAndStepAlone) {
  const auto first = [](std::uint64_t seed, Purpose purpose, std::uint64_t step) {
    return Rng{seed, purpose, step}();
  };
  EXPECT_EQ(first(1, Purpose::kPlacing, 5), first(1, Purpose::kPlacing, 5));
  std::set<std::uint32_t> distinct{first(1, Purpose::kPlacing, 5), first(2, Purpose::kPlacing, 5),
                                   first(1, Purpose::kNoise, 5), first(1, Purpose::kPlacing, 6)};
  EXPECT_EQ(distinct.size(), 4u);
}

TEST(Rng, DrawsHaveTheMomentsOfTheirDistributions) {
  Rng rng{7, Purpose::kTest};
  double uniform = 0, normal = 0, square = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    uniform += rng.uniform();
    const double z = rng.normal();
    normal += z;
    square += z * z;
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.005);
  EXPECT_NEAR(normal / kDraws, 0.0, 0.015);
  EXPECT_NEAR(square / kDraws, 1.0, 0.02);
}

TEST(Rng, BelowIsUniformAndShuffleKeepsEveryElement) {
  Rng rng{9, Purpose::kTest};
  std::array<int, 6> count{};
  for (int i = 0; i < 60'000; ++i) ++count[rng.below(6)];
  for (const int c : count) EXPECT_NEAR(c, 10'000, 500);
  std::vector<int> deck(50);
  std::iota(deck.begin(), deck.end(), 0);
  rng.shuffle(deck);
  EXPECT_FALSE(std::is_sorted(deck.begin(), deck.end()));
  std::sort(deck.begin(), deck.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(deck[static_cast<std::size_t>(i)], i);
}

TEST(Sha256, HashesTheStandardExample) {
  const std::array<std::byte, 3> abc{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(sha256_hex(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Units, ReserveIsAShareOrASize) {
  EXPECT_EQ(parse_reserve("10%")->of(1000), 100);
  EXPECT_EQ(parse_reserve("0.25")->of(1000), 250);
  EXPECT_EQ(parse_reserve("2GiB")->of(1), std::int64_t{2} << 30);
  EXPECT_EQ(parse_reserve("0%")->of(1000), 0);
  for (const char* text : {"10%", "0.123456789", "2GiB", "1536MiB", "1000B", "0"}) {
    const Reserve reserve = *parse_reserve(text);
    EXPECT_EQ(*parse_reserve(reserve.text()), reserve) << text;
    EXPECT_EQ(Reserve::from_recorded(reserve.recorded()), reserve) << text;
  }
  EXPECT_EQ(parse_reserve("2048MiB")->text(), "2GiB");
  EXPECT_EQ(parse_reserve("10%")->text(), "0.1");
  for (const char* text : {"", "100%", "1", "-1GiB", "2", "10 parsecs", "-10%"})
    EXPECT_FALSE(parse_reserve(text).ok()) << text;
}

TEST(Units, ParseCommonNotations) {
  EXPECT_EQ(*parse_bytes("12GiB"), 12884901888);
  EXPECT_EQ(*parse_bytes("2.5GiB"), 2684354560);
  EXPECT_EQ(*parse_bytes("7 MB"), 7000000);
  EXPECT_DOUBLE_EQ(*parse_bytes_per_s("7.6GB/s"), 7.6e9);
  EXPECT_DOUBLE_EQ(*parse_flops_per_s("4.29TFLOP/s"), 4.29e12);
  EXPECT_DOUBLE_EQ(*parse_seconds("25us"), 25e-6);
  EXPECT_DOUBLE_EQ(*parse_seconds("2min"), 120);
  EXPECT_DOUBLE_EQ(*parse_share("10%"), 0.1);
}

TEST(Units, RefuseInvalidTextsWithTheCure) {
  for (const char* text : {"12", "12GiBs", "GiB", "-1GiB", "nanGiB", "infMB", "1e30TB", ""}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
  EXPECT_NE(parse_bytes("12 gb").error().context.find("GiB"), std::string::npos);
  EXPECT_FALSE(parse_bytes_per_s("0GB/s").ok());
  EXPECT_FALSE(parse_bytes_per_s("5GB").ok());
  EXPECT_FALSE(parse_seconds("5").ok());
  EXPECT_FALSE(parse_share("120%").ok());
}

TEST(Units, FormatForTables) {
  EXPECT_EQ(format_bytes(2684354560), "2.50 GiB");
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_seconds(0.4182), "418.2 ms");
  EXPECT_EQ(format_seconds(12.345), "12.35 s");
}

TEST(Words, SuggestsTheNearestNameWithinALimit) {
  const std::array<std::string_view, 3> names{"bandwidth", "latency", "memory"};
  EXPECT_EQ(nearest_word("bandwith", names), "bandwidth");
  EXPECT_EQ(nearest_word("qqqqqqqqqq", names), "");
}

TEST(Words, NamesCannotControlATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\n");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
}

TEST(Words, NamesCannotChangeTheDirectionOfTextAndAreUtf8) {
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\u202eb");
  EXPECT_EQ(printable("half \xff\xfe"), "half \\xff\\xfe");
  EXPECT_EQ(without_controls("a\tb\nc\x07", "\t\n"), "a\tb\nc\\x07");
  Rng rng{5, Purpose::kTest};
  for (int i = 0; i < 20'000; ++i) {
    std::string text(1 + rng.below(12), ' ');
    for (char& c : text) c = static_cast<char>(rng.below(256));
    for (const std::string& shown : {without_controls(text), printable(text), printable(text, 3)}) {
      ASSERT_TRUE(is_utf8(shown)) << i;
      for (const char c : shown) ASSERT_FALSE((c >= 0 && c < 0x20) || c == 0x7f) << i;
      ASSERT_EQ(shown.find("\xe2\x80\xae"), std::string::npos) << i;
    }
  }
}

/// Texts of every single byte, every code point below 0x300, and random ones of both.
std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.push_back(std::string{"a"} + static_cast<char>(byte) + "b");
  for (unsigned point = 0x80; point < 0x300; ++point)
    texts.push_back({static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))});
  for (const char* text : {"\xe2\x80\xae", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf",
                           "\"\"\"", "\\u0000", "'", "# no comment", "\r\n\t\b\f\x1b"})
    texts.emplace_back(text);
  Rng rng{6, Purpose::kTest};
  for (int i = 0; i < 2'000; ++i) {
    std::string& text = texts.emplace_back(rng.below(20), ' ');
    for (char& c : text) c = static_cast<char>(rng.below(rng.below(2) == 0 ? 0x80 : 0x100));
  }
  return texts;
}

TEST(Words, TomlTextRoundTrips) {
  std::size_t same = 0;
  for (const std::string& text : hostile_texts()) {
    auto document = TomlDocument::parse("x = " + toml_text(text) + "\ny = 1\n", "t");
    ASSERT_TRUE(document.ok()) << document.error().context << ": " << toml_text(text);
    TomlTable root = document->root();
    const auto read = root.text("x");
    ASSERT_TRUE(read.has_value()) << toml_text(text);
    EXPECT_EQ(root.integer("y"), 1);
    EXPECT_TRUE(is_utf8(*read));
    if (!is_utf8(text)) continue;
    EXPECT_EQ(*read, text);
    ++same;
  }
  EXPECT_GT(same, 1'000u);
}

TEST(Words, DistinguishesUtf8FromOtherBytes) {
  for (const char* text : {"", "a", "größe", "€", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text :
       {"\x80", "a\xb2", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3("})
    EXPECT_FALSE(is_utf8(text)) << printable(text);
}

TEST(Result, CarriesAValueOrAnError) {
  const Result<int> good = 3;
  const Result<int> bad = invalid("x", "is wrong", "do y");
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(bad.error().context, "x: is wrong; do y");
  EXPECT_DEATH((void)bad.value(), "x: is wrong");
}

TEST(ManualClock, AdvancesOnlyOnRequest) {
  ManualClock clock;
  EXPECT_EQ(clock.now().count(), 0);
  clock.advance(std::chrono::seconds{2});
  EXPECT_EQ(clock.now(), std::chrono::seconds{2});
  EXPECT_EQ(format_wall(std::chrono::seconds{86400}), "1970-01-02T00:00:00Z");
}

}  // namespace
}  // namespace emplace
