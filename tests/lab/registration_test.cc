// Goal: the product knows each word that the laboratory adds, and a build without it names what is
// missing. Method: the laboratory is opened for all tests of this program; its lists against the words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/lab_words.h"
#include "graph/formats/graph_file.h"
#include "launcher/commands/laboratory.h"
#include "solver/methods.h"

namespace emplace {
namespace {

class OpenLaboratory final : public ::testing::Environment {
 public:
  void SetUp() override { laboratory = launcher::open_laboratory(); }
  static inline launcher::Laboratory laboratory;
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new OpenLaboratory);

TEST(Laboratory, EachWordIsInOneList) {
  const launcher::Laboratory& laboratory = OpenLaboratory::laboratory;
  ASSERT_TRUE(laboratory.make_train != nullptr && laboratory.generate_worlds != nullptr);
  std::multiset<std::string_view> added{laboratory.make_train()->name(), "worlds"};
  for (const Method* method : transforming_methods()) added.insert(method->name());
  for (const std::string_view word : lab_words())
    if (parse_format(word).ok()) added.insert(word);
  EXPECT_THAT(lab_words(), ::testing::UnorderedElementsAreArray(added));
}

TEST(Laboratory, OnlyItsWordsAreMissingFromABuild) {
  for (const std::string_view word : lab_words())
    EXPECT_EQ(not_in_this_build("word '" + std::string{word} + "'", word)->context,
              "word '" + std::string{word} + "': is not in this build; configure it with -DEMPLACE_LAB=ON");
  EXPECT_FALSE(not_in_this_build("method 'heft'", "heft").has_value());
  for (const std::string_view format : {"onnx", "emplace", "dnn-partitioning"})
    EXPECT_FALSE(not_in_this_build("format", format).has_value()) << format;
}

}  // namespace
}  // namespace emplace
