// Goal: the roofline estimate equals the reference implementation to 1e-9, and measured times take precedence
// over it. Method: per-op and total times that the reference printed for two real graphs, with grouped
// convolutions among the ops.
#include "placement/machine/cost_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "graph/formats/graph_file.h"
#include "graph/models/catalogue.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

OpGraph fixture(const std::string& name) {
  const std::string folder = std::string{EMPLACE_FIXTURES} + "/graphs/";
  auto graph = load_graph(folder + name + (name.starts_with("mobilenet") ? ".json.gz" : ".json"));
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().context);
  return *std::move(graph);
}

TEST(CostModel, EqualsTheReferenceToNineDigits) {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/estimates.txt"};
  std::map<std::string, OpGraph> graphs;
  std::size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream row{line};
    std::string name, profile, op;
    double expected = 0;
    ASSERT_TRUE(row >> name >> profile >> op >> expected) << line;
    const OpGraph& graph = graphs.try_emplace(name, fixture(name)).first->second;
    double got = 0;
    if (op == "total") {
      for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
        got += roofline_us(graph, OpId{i}, *find_profile(profile));
    } else {
      got = roofline_us(graph, OpId{static_cast<std::uint32_t>(std::stoul(op))}, *find_profile(profile));
    }
    EXPECT_NEAR(got, expected, 1e-9 * std::max(1.0, expected)) << line;
    ++compared;
  }
  EXPECT_GT(compared, 90u);
}

// TensorFlow's ops of a model do the same work in each class as torch's, except biases, which addmm includes.
TEST(CostModel, TensorFlowTypesHaveTheClassesOfTheirAtenForms) {
  for (const char* model : {"nasnet", "resnet-152", "cifar10-cnn", "nmt"}) {
    std::array<std::array<double, kNumOpClasses>, 2> flops{};
    for (const auto granularity : {models::Granularity::kAten, models::Granularity::kTensorFlow}) {
      models::ModelSizes sizes{.batch = 4};
      if (std::string{model} == "nmt") sizes.steps = 4;
      const auto graph = models::model_graph(*models::find_model(model), sizes, {.granularity = granularity});
      ASSERT_TRUE(graph.ok()) << graph.error().context;
      for (std::uint32_t i = 0; i < graph->num_ops(); ++i) {
        const auto op_class = static_cast<std::size_t>(classify(*graph, OpId{i}));
        flops[static_cast<std::size_t>(granularity)][op_class] += static_cast<double>(graph->flops(OpId{i}));
      }
    }
    // The cell's joined product also differentiates the zero state of the first of four steps.
    const double share = std::string{model} == "nmt" ? 0.02 : 0.003;
    for (const OpClass op_class : {OpClass::kMatmul, OpClass::kConv, OpClass::kConvGrouped, OpClass::kNorm}) {
      const auto k = static_cast<std::size_t>(op_class);
      EXPECT_NEAR(flops[1][k], flops[0][k], share * flops[0][k]) << model << " " << op_class_name(op_class);
    }
  }
}

// Data that an op does not read costs nothing: a shape, a row, a slice of something large.
TEST(CostModel, TensorFlowOpsPayOnlyForThePartThatTheyRead) {
  const auto graph = models::model_graph(*models::find_model("nmt"), {.batch = 4, .steps = 3},
                                         {.granularity = models::Granularity::kTensorFlow});
  ASSERT_TRUE(graph.ok());
  const Profile profile = *find_profile("k40");
  std::size_t seen = 0;
  for (std::uint32_t i = 0; i < graph->num_ops(); ++i) {
    const std::string_view type = graph->type_name(OpId{i});
    if (type != "Shape" && type != "ShapeN" && type != "GatherV2" && type != "StridedSlice") continue;
    ++seen;
    EXPECT_LT(roofline_us(*graph, OpId{i}, profile), profile.launch_us + 1) << graph->name(OpId{i});
  }
  EXPECT_GT(seen, 100u);
}

TEST(CostModel, TensorFlowTypesHaveTheClassesOfTheirWork) {
  const OpGraph graph =
      load_graph(std::filesystem::path{EMPLACE_FIXTURES} / "third_party/tf-graphdef/impala_learner.pbtxt.gz")
          .value();
  std::map<std::string, OpClass, std::less<>> classes;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (!graph.is_view(OpId{i})) classes.emplace(graph.type_name(OpId{i}), classify(graph, OpId{i}));
  for (const char* type : {"MatMul", "LSTMBlockCell"}) EXPECT_EQ(classes.at(type), OpClass::kMatmul) << type;
  for (const char* type : {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"})
    EXPECT_EQ(classes.at(type), OpClass::kConv) << type;
  for (const char* type : {"Softmax", "BiasAddGrad", "SparseSoftmaxCrossEntropyWithLogits"})
    EXPECT_EQ(classes.at(type), OpClass::kReduce) << type;
  for (const char* type : {"Mul", "LSTMBlockCellGrad", "ApplyRMSProp", "MaxPool"})
    EXPECT_EQ(classes.at(type), OpClass::kElementwise) << type;
}

TEST(CostModel, DistinguishesReductionsFromElementwiseOpsOfTheSameName) {
  OpGraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {{DType::kF32, {8, 8}}}});
  builder.add({.name = "axis", .type = "Constant", .outputs = {{DType::kI32, {}}}});
  builder.add(
      {.name = "tensorflow", .type = "Sum", .inputs = {{0, 0}, {1, 0}}, .outputs = {{DType::kF32, {8}}}});
  builder.add(
      {.name = "onnx", .type = "Sum", .inputs = {{0, 0}, {0, 0}}, .outputs = {{DType::kF32, {8, 8}}}});
  const OpGraph graph = std::move(builder).build().value();
  EXPECT_EQ(classify(graph, OpId{2}), OpClass::kReduce);
  EXPECT_EQ(classify(graph, OpId{3}), OpClass::kElementwise);
}

TEST(CostModel, MeasuredTimesTakePrecedenceAndAcceleratorsAreGpus) {
  const OpGraph graph = testing::sample_graph({{"a", {}, {4}, /*gpu_us=*/7, /*cpu_us=*/70}});
  const DeviceSet devices = testing::sample_devices(1, true, 1 << 20);
  const CostTable costs{graph, devices};
  EXPECT_EQ(costs.ns(DeviceId{0}, OpId{0}), 70'000);
  EXPECT_EQ(costs.ns(DeviceId{1}, OpId{0}), 7'000);
  EXPECT_EQ(costs.best_ns(OpId{0}), 7'000);
  OpGraphBuilder builder;
  builder.add({.name = "a", .type = "Work", .measured_us = {{"accelerator", 3}}});
  const OpGraph accelerated = *std::move(builder).build();
  EXPECT_EQ(CostTable(accelerated, devices).ns(DeviceId{1}, OpId{0}), 3'000);
  EXPECT_EQ(CostTable(accelerated, devices).ns(DeviceId{0}, OpId{0}), 3'000)
      << "the CPU falls back to its launch time";
}

TEST(CostModel, NoEstimateIsBelowTheTimeThatTheHostNeedsToIssueAnOp) {
  OpGraphBuilder builder;
  const auto add = [&](std::string name, std::string type, std::vector<EdgeSpec> inputs, std::int64_t size) {
    return builder.add({.name = std::move(name),
                        .type = std::move(type),
                        .inputs = std::move(inputs),
                        .outputs = {{DType::kF32, {size}}}});
  };
  const OpId input = add("input", "Input", {}, 1 << 20);
  const OpId small = add("small", "aten::relu", {{static_cast<std::uint32_t>(index(input)), 0}}, 1 << 20);
  const OpId view = builder.add({.name = "view",
                                 .type = "aten::view",
                                 .inputs = {{static_cast<std::uint32_t>(index(small)), 0}},
                                 .outputs = {{DType::kF32, {1 << 20}}},
                                 .view = true});
  const OpId measured = builder.add({.name = "measured", .type = "Work", .measured_us = {{"gpu", 3}}});
  const OpGraph graph = *std::move(builder).build();
  for (const CostVersion costs : {CostVersion::k1, CostVersion::k2}) {
    Profile profile = *find_profile("h100", costs);
    const double before_us = OpCosts{graph, profile}.us(small);
    ASSERT_LT(before_us, 40);
    profile.dispatch_us = before_us / 2;
    EXPECT_EQ(OpCosts(graph, profile).us(small), before_us) << "the kernel takes longer";
    profile.dispatch_us = 40;
    const OpCosts late{graph, profile};
    EXPECT_EQ(late.us(small), 40);
    EXPECT_EQ(late.of(small).us, 40);
    EXPECT_EQ(late.us(view), 0);
    EXPECT_EQ(late.us(input), 0);
    EXPECT_EQ(late.us(measured), 3) << "a measurement includes it";
  }
}

TEST(CostModel, DevicesOfOneProfileShareARow) {
  const OpGraph graph = testing::sample_graph({{"a"}});
  const CostTable costs{graph, testing::sample_devices(4, true, 1 << 20)};
  EXPECT_EQ(costs.num_rows(), 2u);
  EXPECT_EQ(costs.row_of(DeviceId{1}), costs.row_of(DeviceId{4}));
}

}  // namespace
}  // namespace emplace
