// Goal: what runs as one kernel has one launch, whose shares are at the ops and add up to it. Method: updates
// with numbers of tensors around the limits of PyTorch's foreach kernels; chains that a framework fuses and
// chains that it does not; then whole graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/formats/graph_file.h"
#include "tests/placement/costs/one_op.h"

namespace emplace {
namespace {

using ::testing::DoubleNear;

/// One step of SGD for parameters of these sizes: p = p - rate · g. Returns the launches of all updates.
struct UpdateLaunches {
  double launches = 0;
  std::vector<double> shares;
};
UpdateLaunches update_of(const std::vector<std::int64_t>& sizes, Phase phase = Phase::kUpdate,
                         const std::string& type = "aten::add", const std::string& name_end = "/new") {
  OpGraphBuilder builder;
  std::vector<std::uint32_t> updates;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::string name = "p" + std::to_string(k);
    const TensorSpec tensor{DType::kF32, {sizes[k]}};
    const auto p = static_cast<std::uint32_t>(
        index(builder.add({.name = name, .type = "Parameter", .outputs = {tensor}})));
    const auto g = static_cast<std::uint32_t>(
        index(builder.add({.name = name + "/g", .type = "Input", .outputs = {tensor}})));
    OpSpec update{.name = name + name_end, .type = type, .inputs = {{p, 0}, {g, 0}}, .outputs = {tensor}};
    update.phase = phase, update.colocate = OpId{p};
    updates.push_back(static_cast<std::uint32_t>(index(builder.add(std::move(update)))));
  }
  const OpGraph graph = std::move(builder).build().value();
  const KernelShapes shapes{graph};
  UpdateLaunches all;
  for (const std::uint32_t op : updates) {
    all.shares.push_back(shapes.of(OpId{op})[0].launches);
    all.launches += all.shares.back();
  }
  return all;
}

TEST(SharedLaunch, ForeachTakesAsManyTensorsAsItsArgumentsHold) {
  EXPECT_THAT(update_of(std::vector<std::int64_t>(64, 1000)).launches, DoubleNear(1, 1e-9));
  EXPECT_THAT(update_of(std::vector<std::int64_t>(65, 1000)).launches, DoubleNear(2, 1e-9));
  EXPECT_THAT(update_of({1000}).launches, DoubleNear(1, 1e-9));
}

TEST(SharedLaunch, LargeTensorsFillALaunchByTheirChunks) {
  const std::int64_t chunk = 65'536;
  EXPECT_THAT(update_of({320 * chunk}).launches, DoubleNear(1, 1e-9));
  EXPECT_THAT(update_of({320 * chunk + 1}).launches, DoubleNear(2, 1e-9));
  const UpdateLaunches both = update_of({960 * chunk, 1000});
  EXPECT_THAT(both.launches, DoubleNear(4, 1e-9));
  EXPECT_GT(both.shares[0], 100 * both.shares[1]);
}

TEST(SharedLaunch, OnlyUpdatesOfOneKindShare) {
  EXPECT_EQ(update_of({1000, 1000}, Phase::kBackward).launches, 2);
  EXPECT_EQ(update_of({1000, 1000}, Phase::kUpdate, "ApplyGradientDescent").launches, 2);
  EXPECT_EQ(update_of({1000, 1000}, Phase::kUpdate, "aten::mm").launches, 2);
  // Sums of gradients over micro-batches, in the graph of one of them and in the unrolled one.
  EXPECT_EQ(update_of({1000, 1000}, Phase::kUpdate, "aten::add", "@accumulate").launches, 2);
  EXPECT_EQ(update_of({1000, 1000}, Phase::kUpdate, "aten::add", "@accumulate@3").launches, 2);
}

TEST(SharedLaunch, AnOpOnListsHasAllOfItsLaunches) {
  OneOp one{.type = "aten::_foreach_add"};
  for (int k = 0; k < 100; ++k) one.inputs.push_back({1000}), one.outputs.push_back({1000});
  for (int k = 0; k < 100; ++k) one.inputs.push_back({1000});
  EXPECT_EQ(kernel_of(one).launches, 2);
}

TEST(SharedLaunch, AdamOfAWholeNetworkIsAFewLaunches) {
  const OpGraph graph = load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/resnet50-bs32.json.gz").value();
  const KernelShapes shapes{graph};
  double launches = 0;
  std::size_t updates = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.phase(OpId{i}) != Phase::kUpdate) continue;
    for (const KernelShape& one : shapes.of(OpId{i})) launches += one.launches, ++updates;
  }
  // 161 parameters; momentum multiplies, adds and adds: lists of 1, 2 and 2 tensors an op.
  EXPECT_GE(updates, 3 * 161);
  EXPECT_LE(launches, 2 + 3 + 3 + 2);
  EXPECT_THAT(launches, DoubleNear(std::round(launches), 1e-9));
}

// --- epilogues ---

/// A product, then each op of the chain on the last result and a tensor of the shape beside it; the launches
/// of all of them.
struct ChainLink {
  std::string type;
  TensorSizes beside = {};
};
double launches_of_chain(const std::string& source, const OneOp& product, const std::vector<ChainLink>& chain,
                         bool read_twice = false) {
  OpGraphBuilder builder;
  builder.set_source(source);
  OpSpec op{.name = "product", .type = product.type, .attrs_json = product.attrs};
  const auto add_input = [&](const TensorSizes& shape, const std::string& type) {
    const std::string name = "input" + std::to_string(builder.size());
    const auto id = builder.add({.name = name, .type = "Parameter", .outputs = {{DType::kF32, shape}}});
    if (type.empty()) return static_cast<std::uint32_t>(index(id));
    OpSpec wide{.name = name + "/wide", .type = type, .outputs = {{DType::kF32, product.outputs[0]}}};
    wide.inputs = {{static_cast<std::uint32_t>(index(id)), 0}};
    return static_cast<std::uint32_t>(index(builder.add(std::move(wide))));
  };
  for (const TensorSizes& shape : product.inputs) op.inputs.push_back({add_input(shape, ""), 0});
  op.outputs = {{DType::kF32, product.outputs[0]}};
  op.flops = product.flops;
  auto last = static_cast<std::uint32_t>(index(builder.add(std::move(op))));
  for (const ChainLink& link : chain) {
    OpSpec next{.name = "next" + std::to_string(builder.size()), .type = link.type};
    next.inputs = {{last, 0}};
    if (!link.beside.empty())
      next.inputs.push_back({add_input(link.beside, source == "hlo" ? "hlo::broadcast" : ""), 0});
    next.outputs = {{DType::kF32, product.outputs[0]}};
    const auto id = static_cast<std::uint32_t>(index(builder.add(std::move(next))));
    if (read_twice)
      builder.add({.name = "again" + std::to_string(id),
                   .type = "Neg",
                   .inputs = {{last, 0}},
                   .outputs = {{DType::kF32, product.outputs[0]}}});
    last = id;
  }
  const OpGraph graph = std::move(builder).build().value();
  const KernelShapes shapes{graph};
  double launches = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.type_name(OpId{i}) != "Neg")
      for (const KernelShape& one : shapes.of(OpId{i})) launches += one.count * one.launches;
  return launches;
}

const OneOp kMatMul{
    .type = "MatMul", .inputs = {{30, 50}, {50, 40}}, .outputs = {{30, 40}}, .flops = 2 * 30 * 40 * 50};
const OneOp kConv{.type = "Conv",
                  .inputs = {{2, 8, 14, 14}, {16, 8, 3, 3}},
                  .outputs = {{2, 16, 14, 14}},
                  .flops = 2 * 2 * 16 * 196 * 72};

TEST(Epilogue, OnnxRuntimeAddsBiasesAndResiduals) {
  EXPECT_EQ(launches_of_chain("onnx", kMatMul, {{"Add", {40}}}), 1);
  EXPECT_EQ(launches_of_chain("onnx", kMatMul, {{"Add", {40}}, {"Relu"}}), 2);
  EXPECT_EQ(launches_of_chain("onnx", kMatMul, {{"Add", {30, 40}}}), 2);
  EXPECT_EQ(launches_of_chain("onnx", kConv, {{"BatchNormalization"}, {"Relu"}}), 1);
  EXPECT_EQ(launches_of_chain("onnx", kConv, {{"Add", {2, 16, 14, 14}}, {"Relu"}}), 1);
  EXPECT_EQ(launches_of_chain("onnx", kConv, {{"Add", {2, 16, 14, 14}}, {"Sigmoid"}}), 3);
  EXPECT_EQ(launches_of_chain("onnx", kConv, {{"Relu"}, {"Relu"}}), 2);
}

TEST(Epilogue, NothingFusesWithAResultThatAnotherOpReads) {
  EXPECT_EQ(launches_of_chain("onnx", kMatMul, {{"Add", {40}}}, /*read_twice=*/true), 2);
}

TEST(Epilogue, TensorFlowFusesWhatItsRemapperDoesOnGpus) {
  const std::string source = "tensorflow graphdef, producer 1";
  EXPECT_EQ(launches_of_chain(source, kMatMul, {{"BiasAdd", {40}}, {"Relu"}}), 1);
  EXPECT_EQ(launches_of_chain(source, kMatMul, {{"BiasAdd", {40}}, {"Tanh"}}), 2);
  EXPECT_EQ(launches_of_chain(source, kMatMul, {{"AddV2", {40}}}), 2);
  OneOp conv{.type = "Conv2D",
             .inputs = {{2, 14, 14, 8}, {3, 3, 8, 16}},
             .outputs = {{2, 14, 14, 16}},
             .flops = 2 * 2 * 16 * 196 * 72};
  EXPECT_EQ(launches_of_chain(source, conv, {{"BiasAdd", {16}}, {"Relu"}}), 1);
  EXPECT_EQ(launches_of_chain(source, conv, {{"BiasAdd", {16}}, {"Tanh"}}), 3);
  conv.inputs[1] = {1, 1, 8, 16}, conv.flops /= 9;
  EXPECT_EQ(launches_of_chain(source, conv, {{"BiasAdd", {16}}, {"Relu"}}), 3);
}

TEST(Epilogue, XlaAddsABroadcast) {
  OneOp dot = kMatMul;
  dot.type = "hlo::dot";
  EXPECT_EQ(launches_of_chain("hlo", dot, {{"hlo::add", {40}}, {"hlo::maximum", {1}}}), 1);
  EXPECT_EQ(launches_of_chain("hlo", dot, {{"hlo::add", {40}}, {"hlo::tanh"}}), 2);
}

TEST(Epilogue, PyTorchFusesNothing) {
  OneOp mm = kMatMul;
  mm.type = "aten::mm";
  EXPECT_EQ(launches_of_chain("fx", mm, {{"aten::add", {40}}, {"aten::relu"}}), 3);
}

TEST(Epilogue, AFollowerKeepsItsWorkAndReadsItsOtherInputs) {
  OpGraphBuilder builder;
  builder.set_source("onnx");
  builder.add({.name = "x", .type = "Input", .outputs = {{DType::kF32, {30, 50}}}});
  builder.add({.name = "w", .type = "Parameter", .outputs = {{DType::kF32, {50, 40}}}});
  builder.add({.name = "b", .type = "Parameter", .outputs = {{DType::kF32, {40}}}});
  OpSpec product{
      .name = "y", .type = "MatMul", .inputs = {{0, 0}, {1, 0}}, .outputs = {{DType::kF32, {30, 40}}}};
  product.flops = 2 * 30 * 40 * 50;
  builder.add(std::move(product));
  OpSpec sum{.name = "z", .type = "Add", .inputs = {{3, 0}, {2, 0}}, .outputs = {{DType::kF32, {30, 40}}}};
  sum.flops = 1200;
  builder.add(std::move(sum));
  const OpGraph graph = std::move(builder).build().value();
  const KernelShape follower = kernels_of(graph, OpId{4})[0];
  EXPECT_EQ(follower.launches, 0);
  EXPECT_EQ(follower.flops, 1200);
  EXPECT_EQ(follower.bytes, 4 * 40);
  EXPECT_EQ(kernels_of(graph, OpId{3})[0].bytes, 4 * (30 * 50 + 50 * 40 + 30 * 40));
}

TEST(Epilogue, AResNetInOnnxRunsItsConvolutionsAndLittleElse) {
  const OpGraph graph = load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/resnet50.onnx").value();
  const KernelShapes shapes{graph};
  double launches = 0;
  for (const KernelShape& one : shapes.all()) launches += one.count * one.launches;
  // 53 convolutions, a pool, a mean and the classifier.
  EXPECT_EQ(launches, 56);
}

}  // namespace
}  // namespace emplace
