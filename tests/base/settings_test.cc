// Goal: a struct that lists its settings is read, written, checked, compared and documented by that list
// alone. Method: a struct with a setting of every kind; wrong documents and values are refused in one line.
#include "base/settings.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/toml_reader.h"
#include "tests/support/settings_markdown.h"

namespace emplace {
namespace {

enum class Colour : std::uint8_t { kRed, kGreen, kUnnamed };
constexpr auto enum_words(Colour) {
  return EnumWords{"colour", std::array{EnumWord{Colour::kRed, "red"}, EnumWord{Colour::kGreen, "green"}}};
}
constexpr std::array<std::string_view, 2> kKinds{"plain", "fancy"};

struct Inner {
  std::uint64_t rounds = 8;
  float share = 0.1f;
  void list(Settings& s) {
    s.add("rounds", rounds, between(1, 256), "Rounds.");
    s.add("share", share, from_to_below(0, 1), "A share.");
  }
};
struct Outer {
  bool on = true;
  std::int64_t count = 3;
  double weight = 2.5;
  std::string kind = "plain";
  std::vector<std::string> kinds = {"plain"};
  Duration wait{1.5};
  Colour colour = Colour::kRed;
  void list(Settings& s) {
    s.add("on", on, "Whether.");
    s.add("count", count, at_least(1), "How many.");
    s.add("weight", weight, "How much.");
    s.add("kind", kind, one_of(kKinds), "A kind.");
    s.add("kinds", kinds, one_of(kKinds), "Several.");
    s.add("wait", wait, "How long.");
    s.add("colour", colour, "A colour.");
  }
};
struct Both {
  Outer outer;
  Inner inner;
  Settings settings() {
    Settings s;
    s.add_section("outer", "What is outside.", outer);
    s.add_section("outer.inner", "What is inside.", inner);
    return s;
  }
};

Result<Unit> read(Both& both, std::string_view toml) {
  return read_settings(both.settings(), TomlDocument::parse(toml, "x.toml").value());
}

TEST(Settings, RoundTrip) {
  Both both;
  ASSERT_TRUE(read(both,
                   "[outer]\non = false\ncount = 5\nweight = 3\nkind = \"fancy\"\nkinds = [\"a\", \"b\"]\n"
                   "wait = \"20ms\"\ncolour = \"green\"\n[outer.inner]\nrounds = 9\nshare = 0.3\n")
                  .ok());
  const std::string text = settings_toml(both.settings(), false);
  EXPECT_EQ(text,
            "[outer]\non = false\ncount = 5\nweight = 3.0\nkind = \"fancy\"\nkinds = [\"a\", \"b\"]\n"
            "wait = \"20ms\"\ncolour = \"green\"\n\n[outer.inner]\nrounds = 9\nshare = 0.3\n");
  Both again;
  ASSERT_TRUE(read(again, settings_toml(both.settings(), true)).ok());
  EXPECT_EQ(settings_toml(again.settings(), false), text);
  EXPECT_EQ(again.inner.share, 0.3f);
  EXPECT_EQ(differing_settings(Both{}.settings(), Both{}.settings()), std::vector<std::string>{});
  Both other = both;
  other.inner.rounds = 10;
  other.outer.colour = Colour::kRed;
  EXPECT_EQ(differing_settings(both.settings(), other.settings()),
            (std::vector<std::string>{"outer.colour", "outer.inner.rounds"}));
  copy_settings(both.settings(), other.settings());
  EXPECT_EQ(settings_toml(other.settings(), false), text);
}

TEST(Settings, AreDocumentedWithTheirRanges) {
  Both both;
  const std::string toml = settings_toml(both.settings(), true),
                    page = testing::settings_markdown(both.settings());
  EXPECT_NE(toml.find("# What is inside.\n[outer.inner]\n# Rounds. 1 to 256.\nrounds = 8\n"),
            std::string::npos)
      << toml;
  EXPECT_NE(toml.find("# A colour. One of: red, green.\ncolour = \"red\"\n"), std::string::npos) << toml;
  EXPECT_NE(page.find("| `share` | `0.1` | at least 0 and below 1 | A share. |\n"), std::string::npos)
      << page;
}

TEST(Settings, InvalidValuesAreRefusedWithTheirPlace) {
  const auto refusal = [](std::string_view toml) {
    Both both;
    auto done = read(both, toml);
    if (done) done = check_ranges(both.settings());
    return done ? std::string{} : done.error().context;
  };
  EXPECT_EQ(refusal("[outer]\ncuont = 3\n"), "x.toml:2: unknown key 'cuont'; did you mean 'count'?");
  EXPECT_EQ(refusal("[outer.iner]\nrounds = 3\n"), "x.toml:1: unknown key 'iner'; did you mean 'inner'?");
  EXPECT_EQ(refusal("[outer]\ncount = \"x\"\n"), "x.toml:2: 'count' must be a whole number");
  EXPECT_EQ(refusal("[outer.inner]\nrounds = -1\n"), "x.toml:2: 'rounds' is out of range");
  EXPECT_EQ(refusal("[outer]\ncolour = \"gren\"\n"),
            "x.toml:2: unknown colour 'gren'; expected one of: red, green (did you mean 'green'?)");
  EXPECT_EQ(refusal("[outer]\ncount = 0\n"), "outer.count = 0: expected at least 1");
  EXPECT_EQ(refusal("[outer.inner]\nrounds = 257\n"), "outer.inner.rounds = 257: expected 1 to 256");
  EXPECT_EQ(refusal("[outer.inner]\nshare = 1\n"),
            "outer.inner.share = 1.0: expected at least 0 and below 1");
  EXPECT_EQ(refusal("[outer.inner]\nshare = nan\n"),
            "outer.inner.share = nan: expected at least 0 and below 1");
  EXPECT_EQ(refusal("[outer]\nkind = \"odd\"\n"),
            "outer.kind: unknown kind 'odd'; expected one of: plain, fancy");
  EXPECT_EQ(refusal("[outer]\nkinds = [\"plain\", \"odd\"]\n"),
            "outer.kinds: unknown kinds 'odd'; expected one of: plain, fancy");
  Inner inner;
  inner.rounds = 0;
  EXPECT_EQ(check_ranges(inner).error().context, "rounds = 0: expected 1 to 256")
      << "a struct without a section";
}

TEST(Settings, WordsOfAnEnum) {
  EXPECT_EQ(word_of(Colour::kGreen), "green");
  EXPECT_EQ(word_of(Colour::kUnnamed), "");
  EXPECT_EQ(*parse_word<Colour>("green"), Colour::kGreen);
  EXPECT_EQ(parse_word<Colour>("blue").error().context, "unknown colour 'blue'; expected one of: red, green");
}

TEST(Settings, ValueMovesToAnotherKeyWithItsLine) {
  const auto parse = [](std::string_view toml) { return TomlDocument::parse(toml, "x.toml").value(); };
  TomlDocument document = parse("[outer]\n\nrounds = \"x\"\n");
  EXPECT_TRUE(*document.move("outer.rounds", "outer.inner.rounds"));
  EXPECT_FALSE(*document.move("outer.rounds", "outer.inner.rounds")) << "it is not there any more";
  Both both;
  EXPECT_EQ(read_settings(both.settings(), document).error().context,
            "x.toml:3: 'rounds' must be a whole number");
  TomlDocument dropped = parse("[outer]\nold = 1\n");
  EXPECT_TRUE(*dropped.move("outer.old", ""));
  EXPECT_TRUE(read_settings(both.settings(), dropped).ok());
  TomlDocument twice = parse("[outer]\nrounds = 1\n[outer.inner]\nrounds = 2\n");
  EXPECT_EQ(twice.move("outer.rounds", "outer.inner.rounds").error().context,
            "x.toml:2: outer.rounds and outer.inner.rounds are both set; remove the first, which is the old "
            "name");
  TomlDocument no_table = parse("[outer]\nrounds = 1\ninner = 2\n");
  EXPECT_FALSE(no_table.move("outer.rounds", "outer.inner.rounds").ok());
}

}  // namespace
}  // namespace emplace
