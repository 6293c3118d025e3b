// Goal: a device map names every module and tensor of the PyTorch model, also those that an exporter folded,
// and a tree of another model is refused. Method: small graphs with trees in the form of `named_modules()`.
#include "placement/export/module_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "placement/export/placement_export.h"
#include "tests/placement/export/folded_convolutions.h"

namespace emplace::interop {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModuleNames, ParsesLinesAndJson) {
  EXPECT_THAT(parse_module_names("\nconv1\r\nlayer1\nlayer1.0\n", "m.txt").value(),
              ElementsAre("conv1", "layer1", "layer1.0"));
  EXPECT_THAT(parse_module_names(R"( ["", "conv1", "fc"])", "m.json").value(), ElementsAre("conv1", "fc"));
  for (const char* text : {"", "\n\n", "[]", "[1]", "[\"a\"", "{\"a\": 1}", "a\xff"}) {
    const auto refused = parse_module_names(text, "m.txt");
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(refused.error().context, HasSubstr("m.txt")) << text;
  }
}

TEST(ModuleNames, NumberedCallsBelongToTheirModule) {
  const ModuleTree tree{{"layer1.0.relu", "layer1.0.conv_1"}};
  EXPECT_EQ(tree.find("layer1.0.relu_2"), "layer1.0.relu");
  EXPECT_EQ(tree.find("layer1.0.conv_1"), "layer1.0.conv_1");
  EXPECT_EQ(tree.find("layer1.0"), "layer1.0");
  EXPECT_EQ(tree.find("layer1.1.relu"), std::nullopt);
  EXPECT_EQ(tree.find("layer1.0.relu2"), std::nullopt);
  EXPECT_FALSE(tree.is_leaf("layer1"));
  EXPECT_TRUE(tree.is_leaf("layer1.0.relu"));
}

/// conv1, whose batch norm was folded into it, then conv2 and fc, each with a weight; `token` is a weight of
/// the model itself.
OpGraph folded_network(const std::string& source) {
  OpGraphBuilder builder;
  builder.set_source(source);
  const auto add = [&](const char* name, const char* type, const char* group, std::vector<EdgeSpec> inputs) {
    OpSpec op;
    op.name = name;
    op.type = type;
    op.group = group;
    op.inputs = std::move(inputs);
    op.outputs = {{DType::kF32, {16}}};
    op.flops = op.inputs.empty() ? 0 : 100;
    builder.add(std::move(op));
  };
  add("token", "Parameter", "", {});
  add("weight", "Parameter", "", {});
  add("a", "Add", "conv1", {{0, 0}, {1, 0}});
  add("b", "Relu", "conv2", {{2, 0}, {5, 0}});
  add("c", "Relu", "fc", {{3, 0}, {6, 0}});
  add("v", "Parameter", "", {});
  add("u", "Parameter", "", {});
  return std::move(builder).build().value();
}

const std::vector<std::string> kTree{"conv1",        "bn1",        "conv2",     "bn2",  "fc",
                                     "conv1.weight", "bn1.weight", "fc.weight", "token"};

Result<ExportedPlacement> mapped(const OpGraph& graph, const std::vector<std::string>& tree,
                                 std::vector<int> devices) {
  static const std::vector<std::string> kNames{"cpu:0", "gpu:0", "gpu:1"};
  Placement placement;
  for (const int device : devices) placement.push_back(static_cast<DeviceId>(device));
  return export_placement("accelerate",
                          {.graph = graph, .devices = kNames, .placement = placement, .modules = tree});
}

TEST(ModuleMap, FoldedBatchNormIsPlacedWithItsConvolution) {
  const auto made = mapped(folded_network("onnx pytorch 2.15"), kTree, {1, 1, 1, 2, 2, 2, 2});
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(json::parse(made->content),
            json::parse(R"({"conv1": 0, "bn1": 0, "conv2": 1, "bn2": 1, "fc": 1, "token": 0})"));
  EXPECT_EQ(made->moved_ops, 0u);
  const auto whole = mapped(folded_network("onnx pytorch 2.15"), kTree, {2, 2, 2, 2, 2, 2, 2});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(json::parse(whole->content), json::parse(R"({"": 1})"));
}

// torch 2.15 gives the folded convolution the scope of the batch norm, and keeps the weight's name.
TEST(ModuleMap, ConvolutionInTheScopeOfItsBatchNormIsPlacedWithItsWeight) {
  const auto made = mapped(testing::folded_convolutions("", 1, "onnx pytorch 2.15"),
                           {"conv1", "bn1", "conv2", "bn2"}, {1, 1, 2, 2});
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(json::parse(made->content), json::parse(R"({"conv1": 0, "bn1": 0, "conv2": 1, "bn2": 1})"));
}

TEST(ModuleMap, OnnxModelThatIsSplitNeedsTheTree) {
  const auto refused = mapped(folded_network("onnx pytorch 2.15"), {}, {1, 1, 1, 2, 2, 2, 2});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, AllOf(HasSubstr("--to accelerate"), HasSubstr("--modules FILE")));
  EXPECT_TRUE(mapped(folded_network("onnx pytorch 2.15"), {}, {1, 1, 1, 1, 1, 1, 1}).ok());
  EXPECT_TRUE(mapped(folded_network("torch 2.15"), {}, {1, 1, 1, 2, 2, 2, 2}).ok());
}

TEST(ModuleMap, TreeOfAnotherModelIsRefused) {
  const auto refused = mapped(folded_network("onnx pytorch 2.15"), {"conv1", "fc"}, {1, 1, 1, 2, 2, 2, 2});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context,
              AllOf(HasSubstr("--modules"), HasSubstr("no module 'conv2'"), HasSubstr("op 'b'")));
  static const std::vector<std::string> kNames{"cpu:0"};
  const OpGraph graph = folded_network("");
  const Placement placement(graph.num_ops(), DeviceId{0});
  const auto elsewhere =
      export_placement("csv", {.graph = graph, .devices = kNames, .placement = placement, .modules = kTree});
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_THAT(elsewhere.error().context, HasSubstr("is not for --to csv"));
}

}  // namespace
}  // namespace emplace::interop
