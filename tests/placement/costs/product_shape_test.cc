// Goal: the kernels of products, convolutions and recurrent layers have the sizes of the products that a
// library is called with, in every vocabulary. Method: ops with sizes that differ in every factor, against
// sizes by hand; then real graphs, whose products add up to the ops' own work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "graph/formats/graph_file.h"
#include "graph/models/catalogue.h"
#include "placement/costs/product_shape.h"
#include "tests/placement/costs/one_op.h"

namespace emplace {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using enum KernelKind;

TEST(ProductShape, ASquareProductHasItsSize) {
  const KernelShape one =
      kernel_of({.type = "aten::mm", .inputs = {{4096, 4096}, {4096, 4096}}, .outputs = {{4096, 4096}}});
  EXPECT_EQ(one.kind, kProduct);
  EXPECT_THAT(one.at, ElementsAre(4096, 4096, 4096, 1));
  EXPECT_EQ(one.flops, 2.0 * 4096 * 4096 * 4096);
  EXPECT_EQ(one.bytes, 3.0 * 4 * 4096 * 4096);
  EXPECT_EQ(one.launches, 1);
}

TEST(ProductShape, ABiasIsNoPartOfTheProduct) {
  const KernelShape one = kernel_of({.type = "aten::addmm",
                                     .inputs = {{40}, {30, 50}, {50, 40}},
                                     .outputs = {{30, 40}},
                                     .weights = {0, 2}});
  EXPECT_THAT(one.at, ElementsAre(30, 40, 50, 1));
  EXPECT_EQ(one.flops, 2 * 30 * 40 * 50 + 30 * 40);
}

TEST(ProductShape, ColumnsBelongToTheWeights) {
  const OneOp swapped{
      .type = "aten::mm", .inputs = {{70, 50}, {50, 30}}, .outputs = {{70, 30}}, .weights = {0}};
  EXPECT_THAT(kernel_of(swapped).at, ElementsAre(30, 70, 50, 1));
  OneOp plain = swapped;
  plain.weights = {};
  EXPECT_THAT(kernel_of(plain).at, ElementsAre(70, 30, 50, 1));
}

TEST(ProductShape, RowsOf16BitTensorsThatFillNo16BytesAreUnaligned) {
  const auto is_unaligned = [](std::vector<TensorSizes> inputs, TensorSizes output,
                               std::vector<std::size_t> weights, DType dtype = DType::kF16) {
    return kernel_of({.type = inputs[0].size() == 3 ? "aten::bmm" : "aten::mm",
                      .inputs = std::move(inputs),
                      .outputs = {std::move(output)},
                      .dtype = dtype,
                      .weights = std::move(weights)})
        .unaligned;
  };
  EXPECT_TRUE(is_unaligned({{1024, 64}, {64, 50257}}, {1024, 50257}, {1})) << "logits";
  EXPECT_TRUE(is_unaligned({{1024, 50257}, {50257, 64}}, {1024, 64}, {1})) << "the gradient of their input";
  EXPECT_TRUE(is_unaligned({{50257, 1024}, {1024, 64}}, {50257, 64}, {})) << "that of their weights";
  EXPECT_TRUE(is_unaligned({{1024, 64}, {64, 50257}}, {1024, 50257}, {1}, DType::kBF16));
  EXPECT_FALSE(is_unaligned({{1024, 64}, {64, 50257}}, {1024, 50257}, {1}, DType::kF32));
  EXPECT_FALSE(is_unaligned({{1024, 64}, {64, 50304}}, {1024, 50304}, {1}));
  EXPECT_FALSE(is_unaligned({{77, 64}, {64, 128}}, {77, 128}, {1})) << "the number of rows does not matter";
  EXPECT_FALSE(is_unaligned({{77, 128}, {128, 64}}, {77, 64}, {1}));
  EXPECT_FALSE(is_unaligned({{128, 77}, {77, 64}}, {128, 64}, {}));
  EXPECT_TRUE(is_unaligned({{4, 77, 64}, {4, 64, 77}}, {4, 77, 77}, {})) << "scores of 77 tokens";
  EXPECT_FALSE(is_unaligned({{4, 80, 64}, {4, 64, 80}}, {4, 80, 80}, {}));
}

TEST(ProductShape, ABatchOfProductsIsOneKernel) {
  const KernelShape one =
      kernel_of({.type = "aten::bmm", .inputs = {{24, 10, 64}, {24, 64, 20}}, .outputs = {{24, 10, 20}}});
  EXPECT_EQ(one.kind, kBatchProduct);
  EXPECT_THAT(one.at, ElementsAre(24, 10, 20, 64));
}

TEST(ProductShape, AMatrixThatABatchSharesMakesItOneProduct) {
  const KernelShape one = kernel_of(
      {.type = "aten::matmul", .inputs = {{8, 12, 10, 64}, {64, 20}}, .outputs = {{8, 12, 10, 20}}});
  EXPECT_EQ(one.kind, kProduct);
  EXPECT_THAT(one.at, ElementsAre(8 * 12 * 10, 20, 64, 1));
}

TEST(ProductShape, AnEinsumIsTheProductThatItMeans) {
  const std::int64_t work = std::int64_t{2} * 6 * 5 * 7 * 9;
  const KernelShape batch = kernel_of({.type = "Einsum",
                                       .inputs = {{6, 5, 9}, {6, 9, 7}},
                                       .outputs = {{6, 5, 7}},
                                       .attrs = R"({"equation":"bij,bjk->bik"})",
                                       .flops = work,
                                       .source = "onnx pytorch 2.9"});
  EXPECT_EQ(batch.kind, kBatchProduct);
  EXPECT_THAT(batch.at, ElementsAre(6, 5, 7, 9));
}

TEST(ProductShape, WorkThatNoSizesFitIsOther) {
  const KernelShape one = kernel_of({.type = "MatMul",
                                     .inputs = {{30, 50}, {50, 40}},
                                     .outputs = {{30, 40}},
                                     .flops = 72'000,
                                     .source = "onnx"});
  EXPECT_EQ(one.kind, kOther);
  EXPECT_EQ(one.flops, 72'000);
  EXPECT_EQ(one.bytes, 4 * (30 * 50 + 50 * 40 + 30 * 40));
}

TEST(ProductShape, AnEpilogueDoesNotChangeTheDepth) {
  // cuBLASLt with a bias and GELU: 13 further operations per element.
  const auto sizes = kernel_shapes::product_sizes(30 * 40 * (2 * 50 + 13), 30 * 40, 30 * 50, 50 * 40,
                                                  std::vector<std::int64_t>{30, 50});
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->k, 50);
}

TEST(ProductShape, PackedWeightsHaveTheColumnsOfTheResult) {
  const KernelShape one = kernel_of({.type = "com.microsoft::MatMulNBits",
                                     .inputs = {{4, 16, 64}, {96, 2, 16}, {192}},
                                     .outputs = {{4, 16, 96}},
                                     .flops = std::int64_t{2} * 4 * 16 * 64 * 96,
                                     .dtype = DType::kF16,
                                     .source = "onnx"});
  EXPECT_THAT(one.at, ElementsAre(64, 96, 64, 1));
  EXPECT_EQ(one.arithmetic, Arithmetic::kW4);
}

TEST(ProductShape, ExpertsAreABatchOfTheirMeanRows) {
  const KernelShape one = kernel_of(
      {.type = "aten::_grouped_mm", .inputs = {{256, 128}, {8, 128, 64}, {8}}, .outputs = {{256, 64}}});
  EXPECT_EQ(one.kind, kBatchProduct);
  EXPECT_THAT(one.at, ElementsAre(8, 32, 64, 128));
}

TEST(ProductShape, BothGradientsOfALayerAreAProductEach) {
  const auto both = kernels_of({.type = "aten::linear_backward",
                                .inputs = {{5, 6, 70}, {5, 6, 80}, {80, 70}},
                                .outputs = {{5, 6, 70}, {80, 70}, {80}},
                                .attrs = R"({"output_mask":[true,true,true]})"});
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_THAT(both[0].at, ElementsAre(30, 70, 80, 1));
  EXPECT_THAT(both[1].at, ElementsAre(80, 70, 30, 1));
}

// --- convolutions ---

TEST(ConvolutionShape, ForwardIsPixelsTimesChannels) {
  const KernelShape one = kernel_of({.type = "aten::convolution",
                                     .inputs = {{32, 64, 56, 56}, {128, 64, 3, 3}, {128}},
                                     .outputs = {{32, 128, 28, 28}},
                                     .attrs = R"({"padding":[1,1],"stride":[2,2]})"});
  EXPECT_EQ(one.kind, kConvolution);
  EXPECT_THAT(one.at, ElementsAre(32 * 28 * 28, 128, 64 * 9, 1));
  EXPECT_EQ(one.flops, 2.0 * 32 * 28 * 28 * 128 * 64 * 9 + 32 * 128 * 28 * 28);
}

TEST(ConvolutionShape, GradientsAreThoseThatAreWanted) {
  const OneOp both{.type = "aten::convolution_backward",
                   .inputs = {{32, 128, 28, 28}, {32, 64, 56, 56}, {128, 64, 3, 3}},
                   .outputs = {{32, 64, 56, 56}, {128, 64, 3, 3}, {128}},
                   .attrs = R"({"output_mask":[true,true,true],"stride":[2,2]})"};
  const double each = 2.0 * 32 * 28 * 28 * 128 * 64 * 9;
  const auto kernels = kernels_of(both);
  ASSERT_THAT(kernels, SizeIs(2));
  // With stride 2, a quarter of the taps of each pixel of the input counts.
  EXPECT_THAT(kernels[0].at, ElementsAre(32 * 56 * 56, 64, 128 * 9 / 4, 1));
  EXPECT_THAT(kernels[1].at, ElementsAre(64 * 9, 128, 32 * 28 * 28, 1));
  EXPECT_EQ(kernels[0].flops, each);
  EXPECT_EQ(kernels[1].flops, each + 32 * 128 * 28 * 28);
  OneOp weights = both;
  weights.outputs = {{128, 64, 3, 3}, {128}};
  weights.attrs = R"({"output_mask":[false,true,true],"stride":[2,2]})";
  ASSERT_THAT(kernels_of(weights), SizeIs(1));
  EXPECT_THAT(kernel_of(weights).at, ElementsAre(64 * 9, 128, 32 * 28 * 28, 1));
  OneOp input = both;
  input.outputs = {{32, 64, 56, 56}};
  input.attrs = R"({"output_mask":[true,false,false],"stride":[2,2]})";
  EXPECT_THAT(kernel_of(input).at, ElementsAre(32 * 56 * 56, 64, 128 * 9 / 4, 1));
}

TEST(ConvolutionShape, ATransposedConvolutionIsAnInputGradient) {
  const KernelShape one = kernel_of({.type = "aten::convolution",
                                     .inputs = {{4, 64, 14, 14}, {64, 32, 2, 2}},
                                     .outputs = {{4, 32, 28, 28}},
                                     .attrs = R"({"stride":[2,2],"transposed":true})"});
  EXPECT_THAT(one.at, ElementsAre(4 * 28 * 28, 32, 64, 1));
}

TEST(ConvolutionShape, GroupsAreProductsOfOneLaunch) {
  const auto kernels = kernels_of({.type = "aten::convolution",
                                   .inputs = {{8, 256, 14, 14}, {512, 8, 3, 3}},
                                   .outputs = {{8, 512, 14, 14}},
                                   .attrs = R"({"groups":32,"padding":[1,1]})",
                                   .groups = 32});
  ASSERT_THAT(kernels, SizeIs(1));
  EXPECT_EQ(kernels[0].count, 32);
  EXPECT_THAT(kernels[0].at, ElementsAre(8 * 14 * 14, 16, 72, 1));
  EXPECT_EQ(launches_of(kernels), 1);
  EXPECT_EQ(products_of(kernels), 2.0 * 8 * 14 * 14 * 512 * 72);
}

TEST(ConvolutionShape, ADepthwiseConvolutionRunsAtTheMemorysPace) {
  const KernelShape one = kernel_of({.type = "aten::convolution",
                                     .inputs = {{8, 96, 14, 14}, {96, 1, 3, 3}},
                                     .outputs = {{8, 96, 14, 14}},
                                     .attrs = R"({"groups":96,"padding":[1,1]})",
                                     .groups = 96});
  EXPECT_EQ(one.kind, kOther);
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.bytes, 4 * (2 * 8 * 96 * 14 * 14 + 96 * 9));
}

TEST(ConvolutionShape, TensorFlowHasAnOpForEachGradient) {
  const std::int64_t work = std::int64_t{2} * 32 * 28 * 28 * 128 * 64 * 9;
  const std::string source = "tensorflow graphdef, producer 1";
  EXPECT_THAT(kernel_of({.type = "Conv2D",
                         .inputs = {{32, 56, 56, 64}, {3, 3, 64, 128}},
                         .outputs = {{32, 28, 28, 128}},
                         .flops = work,
                         .source = source})
                  .at,
              ElementsAre(32 * 28 * 28, 128, 64 * 9, 1));
  EXPECT_THAT(kernel_of({.type = "Conv2DBackpropInput",
                         .inputs = {{4}, {3, 3, 64, 128}, {32, 28, 28, 128}},
                         .outputs = {{32, 56, 56, 64}},
                         .flops = work,
                         .source = source})
                  .at,
              ElementsAre(32 * 56 * 56, 64, 128 * 9 / 4, 1));
  EXPECT_THAT(kernel_of({.type = "Conv2DBackpropFilter",
                         .inputs = {{32, 56, 56, 64}, {4}, {32, 28, 28, 128}},
                         .outputs = {{3, 3, 64, 128}},
                         .flops = work,
                         .source = source})
                  .at,
              ElementsAre(64 * 9, 128, 32 * 28 * 28, 1));
}

TEST(ConvolutionShape, XlaDoesNotCountPadding) {
  // 3 x 3 taps on 9 x 9 pixels with padding: 25 of 27 taps in each direction.
  const std::int64_t work = std::int64_t{2} * 2 * 16 * 4 * 25 * 25;
  const KernelShape one = kernel_of({.type = "hlo::convolution",
                                     .inputs = {{2, 9, 9, 4}, {3, 3, 4, 16}},
                                     .outputs = {{2, 9, 9, 16}},
                                     .flops = work,
                                     .source = "hlo"});
  EXPECT_EQ(one.kind, kConvolution);
  EXPECT_EQ(one.at[0], 2 * 81);
  EXPECT_EQ(one.at[1], 16);
  EXPECT_THAT(products_of(std::vector{one}), DoubleNear(static_cast<double>(work), 1e-3));
}

// --- recurrent layers ---

TEST(RecurrentShape, InputsOfAllStepsAreOneProduct) {
  const std::int64_t cells = 20 * 4, weights = 384 * (64 + 96);
  const auto kernels = kernels_of({.type = "LSTM",
                                   .inputs = {{20, 4, 64}, {1, 384, 64}, {1, 384, 96}},
                                   .outputs = {{20, 1, 4, 96}},
                                   .flops = 2 * cells * weights + cells * 96 * kLstmUnit,
                                   .source = "onnx"});
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_THAT(kernels[0].at, ElementsAre(80, 384, 64, 1));
  EXPECT_EQ(kernels[0].count, 1);
  EXPECT_THAT(kernels[1].at, ElementsAre(4, 384, 96, 1));
  EXPECT_EQ(kernels[1].count, 20);
  EXPECT_EQ(products_of(kernels), static_cast<double>(2 * cells * weights));
  EXPECT_THAT(work_of(kernels),
              DoubleNear(static_cast<double>(2 * cells * weights + cells * 96 * kLstmUnit), 1));
}

TEST(RecurrentShape, LayersAndGradientsRepeatTheProducts) {
  const OneOp layers{.type = "aten::_cudnn_rnn",
                     .inputs = {{20, 4, 96},
                                {384, 96},
                                {384, 96},
                                {384},
                                {384},
                                {384, 96},
                                {384, 96},
                                {384},
                                {384},
                                {2, 4, 96},
                                {2, 4, 96}},
                     .outputs = {{20, 4, 96}},
                     .attrs = R"({"mode":2})"};
  const auto kernels = kernels_of(layers);
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_EQ(kernels[0].count, 2);
  EXPECT_EQ(kernels[1].count, 40);
  EXPECT_THAT(kernels[1].at, ElementsAre(4, 384, 96, 1));
  OneOp gradients = layers;
  gradients.type = "aten::_cudnn_rnn_backward";
  const auto twice = kernels_of(gradients);
  ASSERT_THAT(twice, SizeIs(2));
  EXPECT_EQ(twice[1].count, 80);
  EXPECT_EQ(products_of(twice), 2 * products_of(kernels));
}

TEST(RecurrentShape, ACellIsAProductAndItsGates) {
  const std::int64_t rows = 8, in = 275, hidden = 256, weights = (in + hidden) * 4 * hidden;
  const auto kernels =
      kernels_of({.type = "LSTMBlockCell",
                  .inputs = {{rows, in}, {rows, hidden}, {rows, hidden}, {in + hidden, 4 * hidden}},
                  .outputs = {{rows, hidden}},
                  .flops = 2 * rows * weights + 34 * rows * hidden,
                  .source = "tensorflow"});
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_THAT(kernels[0].at, ElementsAre(rows, 4 * hidden, in + hidden, 1));
  EXPECT_EQ(kernels[0].arithmetic, Arithmetic::kTf32);
  EXPECT_EQ(kernels[1].kind, kElementwise);
  EXPECT_EQ(kernels[1].arithmetic, Arithmetic::kFp32);
  EXPECT_EQ(work_of(kernels), static_cast<double>(2 * rows * weights + 34 * rows * hidden));
}

// --- real graphs ---

/// Ops whose kernels are products alone do their work in them, but for biases and epilogues.
void expect_products_add_up(const OpGraph& graph) {
  SCOPED_TRACE(graph.name());
  const KernelShapes shapes{graph};
  const auto elements = [&](TensorId tensor) {
    return static_cast<double>(graph.bytes(tensor)) / static_cast<double>(element_bytes(graph.dtype(tensor)));
  };
  std::size_t products = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    const auto kernels = shapes.of(op);
    const bool idle = graph.is_state(op) || graph.is_view(op);
    ASSERT_EQ(kernels.empty(), idle) << graph.name(op);
    bool all = !idle, attends = false;
    for (const KernelShape& one : kernels) {
      all = all && (one.kind == kProduct || one.kind == kBatchProduct || one.kind == kConvolution);
      attends = attends || one.kind == kPrefill || one.kind == kEncoder || one.kind == kDecode;
      for (const double size : one.at) ASSERT_GE(size, 1) << graph.name(op);
    }
    const auto work = static_cast<double>(graph.flops(op));
    if (!attends) {
      ASSERT_NEAR(work_of(kernels), work, 1e-9 * work) << graph.name(op);
    }
    const std::string_view type = graph.type_name(op);
    if (!all || type == "LSTM" || type == "GRU") continue;
    ++products;
    double beside = 0;  // A bias of the result, or its gradient; of a fusion, an activation.
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) beside += elements(graph.output(op, k));
    for (const TensorId input : graph.inputs(op)) beside += elements(input);
    ASSERT_LE(products_of(kernels), work * (1 + 1e-9)) << graph.name(op);
    ASSERT_GE(products_of(kernels), work - beside) << graph.name(op) << " " << type;
  }
  EXPECT_GT(products, 0);
}

TEST(ProductShape, ProductsOfFilesAddUpToTheirWork) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders{fs::path{EMPLACE_FIXTURES} / "graphs",
                                fs::path{EMPLACE_FIXTURES} / "tensorflow"};
  if (const char* shared = std::getenv("EMPLACE_GRAPHS_DIR"))  // The folder of all graphs.
    for (const char* room : {"training", "onnx"}) folders.push_back(fs::path{shared} / room);
  std::size_t files = 0;
  for (const fs::path& folder : folders) {
    for (const auto& file : fs::directory_iterator{folder}) {
      const std::string name = file.path().filename().string();
      if (name == "truth.json" || name.starts_with("pipedream")) continue;
      const auto graph = load_graph(file.path());
      ASSERT_TRUE(graph) << graph.error().context;
      expect_products_add_up(*graph);
      ++files;
    }
  }
  EXPECT_GE(files, 35);
}

TEST(ProductShape, ProductsOfGeneratedModelsAddUpInBothDialects) {
  for (const auto& model : models::all_models())
    for (const auto granularity : {models::Granularity::kAten, models::Granularity::kTensorFlow})
      expect_products_add_up(
          models::model_graph(model, {.batch = 2}, {.granularity = granularity, .training = true}).value());
}

}  // namespace
}  // namespace emplace
