// Goal: a list is split at its spaces alone, without empty words. Method: worked examples.
#include "base/text/word_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WordList, HasTheWordsBetweenSpacesInOrder) {
  EXPECT_THAT(words_in("mm bmm addmm"), ElementsAre("mm", "bmm", "addmm"));
  EXPECT_THAT(words_in("all-reduce custom-call:__gpu$TopK"),
              ElementsAre("all-reduce", "custom-call:__gpu$TopK"));
  EXPECT_THAT(words_in("one"), ElementsAre("one"));
  EXPECT_THAT(words_in("a\tb\nc d"), ElementsAre("a\tb\nc", "d"));
}

TEST(WordList, HasNoEmptyWords) {
  EXPECT_THAT(words_in(""), IsEmpty());
  EXPECT_THAT(words_in("   "), IsEmpty());
  EXPECT_THAT(words_in("  mm   bmm "), ElementsAre("mm", "bmm"));
}

TEST(WordList, WordsArePartsOfTheText) {
  constexpr std::string_view kText = "mm bmm";
  const auto words = words_in(kText);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1].data(), kText.data() + 3);
}

}  // namespace
}  // namespace emplace
