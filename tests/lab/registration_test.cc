// Goal: the product knows each word that the laboratory adds, and a build without it names what is
// missing. Method: the laboratory is opened for all tests of this program; its lists against the words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/lab_words.h"
#include "graph/formats/graph_file.h"
#include "launcher/commands/laboratory.h"
#include "solver/methods.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class OpenLaboratory final : public ::testing::Environment {
 public:
  void SetUp() override { laboratory = launcher::open_laboratory(); }
  static inline launcher::Laboratory laboratory;
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new OpenLaboratory);

TEST(Laboratory, EachNameIsInTheListOfItsKind) {
  const launcher::Laboratory& laboratory = OpenLaboratory::laboratory;
  ASSERT_TRUE(laboratory.make_train != nullptr && laboratory.generate_worlds != nullptr);
  EXPECT_THAT(lab_words(LabWord::kCommand), ElementsAre(laboratory.make_train()->name()));
  EXPECT_THAT(lab_words(LabWord::kModel), ElementsAre("worlds"));
  std::vector<std::string_view> methods;
  for (const Method* method : transforming_methods()) methods.push_back(method->name());
  EXPECT_THAT(lab_words(LabWord::kMethod), ElementsAreArray(methods));
  for (const std::string_view format : lab_words(LabWord::kFormat))
    EXPECT_TRUE(parse_format(format).ok()) << format;
}

TEST(Laboratory, OnlyItsOwnNamesAreMissingFromABuild) {
  EXPECT_EQ(not_in_this_build(LabWord::kFormat, "format 'piper'", "piper")->context,
            "format 'piper': is not in this build; configure it with -DEMPLACE_LAB=ON");
  EXPECT_FALSE(not_in_this_build(LabWord::kFormat, "format 'onnx'", "onnx").has_value());
  // A name of another kind is unknown, with the nearest one.
  EXPECT_FALSE(not_in_this_build(LabWord::kMethod, "method 'train'", "train").has_value());
  EXPECT_THAT(find_compared_method("train").error().context, HasSubstr("is unknown"));
  EXPECT_THAT(parse_format("towers-sync").error().context, HasSubstr("is unknown"));
}

}  // namespace
}  // namespace emplace
