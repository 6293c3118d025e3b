// Goal: kernels that the memory bounds have the rows and the traffic of what runs. Method: one op each
// against bytes by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/placement/costs/one_op.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using enum KernelKind;

TEST(MemoryShape, SoftmaxAndNormsHaveRows) {
  const KernelShape softmax = kernel_of({.type = "aten::_softmax",
                                         .inputs = {{4, 12, 512, 300}},
                                         .outputs = {{4, 12, 512, 300}},
                                         .attrs = R"({"dim":-1})"});
  EXPECT_EQ(softmax.kind, kSoftmax);
  EXPECT_THAT(softmax.at, ElementsAre(4 * 12 * 512, 300, 1, 1));
  EXPECT_THAT(
      kernel_of(
          {.type = "aten::_softmax", .inputs = {{40, 30}}, .outputs = {{40, 30}}, .attrs = R"({"dim":0})"})
          .at,
      ElementsAre(30, 40, 1, 1));
  const KernelShape norm = kernel_of({.type = "aten::native_layer_norm",
                                      .inputs = {{4, 512, 768}, {768}, {768}},
                                      .outputs = {{4, 512, 768}, {4, 512, 1}, {4, 512, 1}}});
  EXPECT_EQ(norm.kind, kNorm);
  EXPECT_THAT(norm.at, ElementsAre(4 * 512, 768, 1, 1));
  const KernelShape gradient =
      kernel_of({.type = "aten::native_layer_norm_backward",
                 .inputs = {{4, 512, 768}, {4, 512, 768}, {4, 512, 1}, {4, 512, 1}, {768}, {768}},
                 .outputs = {{4, 512, 768}, {768}, {768}}});
  EXPECT_THAT(gradient.at, ElementsAre(4 * 512, 768, 1, 1));
  EXPECT_EQ(gradient.launches, 2);
  EXPECT_THAT(kernel_of({.type = "LayerNormalization",
                         .inputs = {{4, 512, 768}, {768}, {768}},
                         .outputs = {{4, 512, 768}},
                         .flops = 0,
                         .source = "onnx"})
                  .at,
              ElementsAre(4 * 512, 768, 1, 1));
  EXPECT_THAT(kernel_of({.type = "aten::native_group_norm",
                         .inputs = {{4, 64, 16, 16}, {64}, {64}},
                         .outputs = {{4, 64, 16, 16}, {4, 32}, {4, 32}}})
                  .at,
              ElementsAre(4 * 32, 2 * 256, 1, 1));
}

TEST(MemoryShape, BatchNormReadsTwiceToTrain) {
  const double data = 4.0 * 8 * 64 * 28 * 28;
  const OneOp training{.type = "aten::native_batch_norm",
                       .inputs = {{8, 64, 28, 28}, {64}, {64}, {64}, {64}},
                       .outputs = {{8, 64, 28, 28}, {64}, {64}}};
  EXPECT_EQ(kernel_of(training).kind, kReduce);
  EXPECT_EQ(kernel_of(training).bytes, 3 * data + 6 * 4 * 64);
  OneOp inference = training;
  inference.outputs = {{8, 64, 28, 28}, {0}, {0}};
  EXPECT_EQ(kernel_of(inference).kind, kElementwise);
  EXPECT_EQ(kernel_of(inference).bytes, 2 * data + 4 * 4 * 64);
}

TEST(MemoryShape, LookupsMoveRowsNotTables) {
  const KernelShape lookup =
      kernel_of({.type = "aten::embedding", .inputs = {{50'000, 768}, {4, 512}}, .outputs = {{4, 512, 768}}});
  EXPECT_EQ(lookup.kind, kGather);
  EXPECT_EQ(lookup.bytes, 2 * 4.0 * 4 * 512 * 768 + 4 * 4 * 512);
  const KernelShape gradient = kernel_of({.type = "aten::embedding_dense_backward",
                                          .inputs = {{4, 512, 768}, {4, 512}},
                                          .outputs = {{50'000, 768}}});
  EXPECT_EQ(gradient.bytes, 4.0 * 50'000 * 768 + 2 * 4.0 * 4 * 512 * 768 + 4 * 4 * 512);
  EXPECT_EQ(gradient.launches, 2);
}

TEST(MemoryShape, ALossReadsOneScoreOfARow) {
  const KernelShape one =
      kernel_of({.type = "aten::nll_loss_forward", .inputs = {{4096, 30'522}, {4096}}, .outputs = {{}, {}}});
  EXPECT_EQ(one.bytes, 4 * 4096 + 8);
}

TEST(MemoryShape, CopiesAndReductions) {
  const KernelShape copy = kernel_of({.type = "aten::clone", .inputs = {{100, 30}}, .outputs = {{100, 30}}});
  EXPECT_EQ(copy.kind, kCopy);
  EXPECT_EQ(copy.bytes, 2 * 4 * 3000);
  EXPECT_THAT(copy.at, ElementsAre(2 * 4 * 3000, 1, 1, 1));
  const KernelShape slice =
      kernel_of({.type = "aten::slice_backward", .inputs = {{10, 30}}, .outputs = {{100, 30}}});
  EXPECT_EQ(slice.bytes, 4 * 3000 + 2 * 4 * 300);
  EXPECT_EQ(slice.launches, 2);
  EXPECT_EQ(kernel_of({.type = "aten::sum", .inputs = {{100, 30}}, .outputs = {{30}}}).kind, kReduce);
  EXPECT_EQ(kernel_of({.type = "aten::amin", .inputs = {{100, 30}}, .outputs = {{30}}}).kind, kReduce);
  EXPECT_EQ(kernel_of({.type = "aten::gelu", .inputs = {{100, 30}}, .outputs = {{100, 30}}}).kind,
            kElementwise);
  EXPECT_EQ(kernel_of({.type = "aten::sort", .inputs = {{100, 30}}, .outputs = {{100, 30}}}).kind, kOther);
  EXPECT_EQ(kernel_of({.type = "Layer7", .inputs = {{100}}, .outputs = {{100}}, .flops = 5}).kind, kOther);
}

TEST(MemoryShape, ATensorThatIsReadTwiceOrExpandedIsThereOnce) {
  OpGraphBuilder builder;
  builder.add({.name = "row", .type = "Parameter", .outputs = {{DType::kF32, {1, 30}}}});
  builder.add({.name = "wide",
               .type = "aten::expand",
               .inputs = {{0, 0}},
               .outputs = {{DType::kF32, {1000, 30}}},
               .attrs_json = R"({"view":true})",
               .view = true});
  builder.add({.name = "data", .type = "Input", .outputs = {{DType::kF32, {1000, 30}}}});
  builder.add({.name = "scaled",
               .type = "aten::mul",
               .inputs = {{2, 0}, {1, 0}},
               .outputs = {{DType::kF32, {1000, 30}}}});
  builder.add({.name = "square",
               .type = "aten::mul",
               .inputs = {{3, 0}, {3, 0}},
               .outputs = {{DType::kF32, {1000, 30}}}});
  const OpGraph graph = std::move(builder).build().value();
  const KernelShapes shapes{graph};
  EXPECT_TRUE(shapes.of(OpId{1}).empty());
  EXPECT_EQ(shapes.of(OpId{3})[0].bytes, 2 * 4 * 30'000 + 4 * 30);
  EXPECT_EQ(shapes.of(OpId{4})[0].bytes, 2 * 4 * 30'000);
  EXPECT_EQ(shapes.all().size(), 2);
  EXPECT_EQ(shapes.first(OpId{4}), 1);
}

}  // namespace
}  // namespace emplace
