// Goal: the table of op kinds has no contradictions, so that one lookup is enough. Method: all rows of all
// vocabularies, and a few types by hand.
#include "graph/op_kind.h"

#include <gtest/gtest.h>

#include <set>

namespace emplace {
namespace {

constexpr Vocabulary kAll[] = {Vocabulary::kGraph, Vocabulary::kAten, Vocabulary::kOnnx,
                               Vocabulary::kTensorFlow, Vocabulary::kHlo};

bool is_pattern(std::string_view name) { return name.find('*') != std::string_view::npos; }

TEST(OpKind, NamesAreUniqueInTheirVocabulary) {
  for (const Vocabulary vocabulary : kAll) {
    std::set<std::string_view> names;
    for (const OpKind& kind : kinds_of(vocabulary)) {
      EXPECT_FALSE(kind.name.empty());
      EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    }
    EXPECT_GE(names.size(), 5u);
  }
}

// The type of an op in a graph does not state its vocabulary.
TEST(OpKind, NamesOfSeveralVocabulariesHaveOneClass) {
  std::size_t shared = 0;
  for (const OpKind& kind : kinds_of(Vocabulary::kOnnx)) {
    const OpKind* other = is_pattern(kind.name) ? nullptr : find_kind(Vocabulary::kTensorFlow, kind.name);
    if (other == nullptr || other->name != kind.name) continue;
    EXPECT_EQ(other->op_class, kind.op_class) << kind.name;
    EXPECT_EQ(class_of_type(kind.name), kind.op_class) << kind.name;
    ++shared;
  }
  EXPECT_GT(shared, 30u);
}

TEST(OpKind, PatternsComeLastAndAreElementwise) {
  for (const Vocabulary vocabulary : kAll) {
    bool patterns = false;
    for (const OpKind& kind : kinds_of(vocabulary)) {
      EXPECT_TRUE(is_pattern(kind.name) || !patterns) << kind.name;
      patterns = patterns || is_pattern(kind.name);
      if (patterns) {
        EXPECT_EQ(kind.op_class, OpClass::kElementwise) << kind.name;
      }
    }
  }
}

TEST(OpKind, FindsATypeByNameThenByPattern) {
  EXPECT_EQ(find_kind(Vocabulary::kAten, "mm")->work.formula, Formula::kMatrixProduct);
  EXPECT_EQ(find_kind(Vocabulary::kAten, "aten::mm"), nullptr);
  EXPECT_EQ(find_kind(Vocabulary::kAten, "_scaled_dot_product_flash_attention_backward")->work.formula,
            Formula::kAttentionGradient);
  EXPECT_EQ(find_kind(Vocabulary::kTensorFlow, "ApplyAdam")->work.amount, 12);
  EXPECT_EQ(find_kind(Vocabulary::kTensorFlow, "ApplyFtrl")->name, "Apply*");
  EXPECT_EQ(find_kind(Vocabulary::kTensorFlow, "MapDataset")->name, "*Dataset");
  EXPECT_EQ(find_kind(Vocabulary::kTensorFlow, "DepthwiseConv2dNativeV2BackpropFilter")->work.formula,
            Formula::kDepthwiseFilterGradient);
  EXPECT_EQ(find_kind(Vocabulary::kOnnx, "Map"), nullptr);
  EXPECT_EQ(find_kind(Vocabulary::kOnnx, ""), nullptr);
}

TEST(OpKind, ClassAndStateDependOnTheTypeInAGraph) {
  EXPECT_EQ(class_of_type("aten::mm"), OpClass::kMatmul);
  EXPECT_EQ(class_of_type("mm"), OpClass::kElementwise);
  EXPECT_EQ(class_of_type("hlo::while_dot"), OpClass::kMatmul);
  EXPECT_EQ(class_of_type("Conv2D"), OpClass::kConv);
  EXPECT_EQ(class_of_type("Buffer"), OpClass::kState);
  EXPECT_EQ(find_kind(Vocabulary::kGraph, "Input")->state, StateKind::kInput);
  EXPECT_EQ(find_kind(Vocabulary::kGraph, "Placeholder"), nullptr);
}

TEST(OpKind, WorkOfElementsIsCappedAndAcceptsMissingInputs) {
  const auto all = [](std::size_t k) { return std::int64_t{10} * static_cast<std::int64_t>(k + 1); };
  EXPECT_EQ(work_of_elements({Formula::kEachOutput, 3}, 7, 2, all), 21);
  EXPECT_EQ(work_of_elements({Formula::kEachInput, 2, 1}, 7, 2, all), 40);
  EXPECT_EQ(work_of_elements({Formula::kEachInput, 2, 2}, 7, 2, all), 0);
  EXPECT_EQ(work_of_elements({Formula::kEachInput, 1, kLastInput}, 7, 3, all), 30);
  EXPECT_EQ(work_of_elements({Formula::kEachInput, 1, kLastInput}, 7, 0, all), 0);
  EXPECT_EQ(work_of_elements({Formula::kEachLarger, 5}, 7, 1, all), 50);
  EXPECT_EQ(work_of_elements({Formula::kTerms}, 7, 4, all), 21);
  EXPECT_EQ(work_of_elements({Formula::kNone}, 7, 4, all), 0);
  EXPECT_EQ(work_of_elements({Formula::kEachOutput, 200}, capped::kMax, 0, all), capped::kMax);
  EXPECT_EQ(work_of_elements({Formula::kEinsum}, 7, 2, all), std::nullopt);
}

}  // namespace
}  // namespace emplace
