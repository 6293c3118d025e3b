// Goal: ONNX models become graphs with their counts, shapes, names and work, and models that cannot be placed
// are refused in one line. Method: exported models, and models made by the test.
#include "graph/formats/onnx/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "graph/formats/graph_file.h"
#include "graph/formats/onnx/onnx_flops.h"
#include "tests/graph/onnx_model.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kOnnxGraphs = std::filesystem::path{EMPLACE_FIXTURES} / "graphs";

TEST(Onnx, ExportedModelsHaveTheCountsOfTheirTable) {
  const auto check = [](const char* file, std::size_t nodes, std::size_t edges, std::size_t weights) {
    const OpGraph graph = load_graph(kOnnxGraphs / file).value();
    std::size_t parameters = 0;
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
      parameters += graph.type_name(OpId{i}) == "Parameter" ? 1 : 0;
    EXPECT_EQ(parameters, weights) << file;
    EXPECT_EQ(graph.num_edges(), edges) << file;
    EXPECT_EQ(graph.num_ops(), nodes + weights + 1) << file;  // The image is one more op.
  };
  check("alexnet.onnx", 20, 36, 16);
  check("resnet50.onnx", 122, 246, 108);
  check("light_squeezenet.onnx", 66, 126,
        52);  // Its weights are ConstantOfShape nodes, and Reshape has none.
}

TEST(Onnx, ImageNetworkHasItsKnownWork) {
  const OpGraph graph = load_graph(kOnnxGraphs / "resnet50.onnx").value();
  std::int64_t flops = 0, parameters = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    flops += graph.flops(OpId{i});
    parameters += graph.param_bytes(OpId{i});
  }
  EXPECT_NEAR(static_cast<double>(flops), 8.2e9, 0.1e9);         // 4.1 G multiply-adds at 224 × 224.
  EXPECT_NEAR(static_cast<double>(parameters), 102.1e6, 0.5e6);  // 25.5 M weights.
  EXPECT_EQ(graph.group_name(find(graph, "/layer4/layer4.0/conv1/Conv")), "layer4/layer4.0/conv1");
}

TEST(Onnx, InfersShapesThatTheFileLacks) {
  Model model;
  model.initializer("w", {8, 16});
  model.initializer("b", {16});
  model.node("Gemm", "/a/fc", {"x", "w", "b"}, {"h"});
  model.node("Relu", "/a/relu", {"h"}, {"y"});
  const OpGraph graph = model.read().value();
  EXPECT_THAT(shape(graph, "/a/relu"), ElementsAre(2, 16));
  EXPECT_EQ(graph.flops(find(graph, "/a/fc")), 2 * 2 * 8 * 16 + 2 * 16);
  EXPECT_EQ(graph.param_bytes(find(graph, "w")), 8 * 16 * 4);
  EXPECT_EQ(graph.type_name(find(graph, "x")), "Input");
  EXPECT_EQ(graph.num_edges(), 4u);
  EXPECT_EQ(graph.name(), "made");
}

TEST(Onnx, InferenceFollowsShapeArithmetic) {
  Model model;
  auto& two = model.initializer("shape", {2}, onnx::TensorProto::INT64);
  two.add_int64_data(4);
  two.add_int64_data(-1);
  model.node("Reshape", "r", {"x", "shape"}, {"y"});
  const OpGraph graph = model.read().value();
  EXPECT_THAT(shape(graph, "r"), ElementsAre(4, 4));
  EXPECT_TRUE(graph.is_view(find(graph, "r")));
  EXPECT_EQ(graph.type_name(find(graph, "shape")), "Constant");
}

TEST(Onnx, DocStringsDistinguishWeightsFromData) {
  Model model;
  model.input("w", {2, 8}).set_doc_string("parameter");
  model.node("Add", "add", {"x", "w"}, {"y"});
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.type_name(find(graph, "w")), "Parameter");
  EXPECT_EQ(graph.param_bytes(find(graph, "w")), 64);
  EXPECT_EQ(graph.param_bytes(find(graph, "x")), 0);
}

TEST(Onnx, MissingAndRepeatedNamesGetThePosition) {
  Model model;
  model.node("Relu", "", {"x"}, {"a"});
  model.node("Relu", "twin", {"a"}, {"b"});
  model.node("Relu", "twin", {"b"}, {"c"});
  model.node("Relu", "x", {"c"}, {"d"});
  const OpGraph graph = model.read().value();
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) names.emplace_back(graph.name(OpId{i}));
  EXPECT_THAT(names, ElementsAre("x", "Relu#0", "twin#1", "twin#2", "x#3"));
}

TEST(Onnx, AcceptsNodesInAnyOrder) {
  Model model;
  model.node("Relu", "second", {"a"}, {"b"});
  model.node("Relu", "first", {"x"}, {"a"});
  for (const char* name : {"a", "b"})
    *model.graph().add_value_info() = model.graph().input(0),
    model.graph().mutable_value_info()->rbegin()->set_name(name);
  const auto graph = model.read();
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_FALSE(graph->ids_are_topological());
}

TEST(Onnx, GroupedConvolutionsAndAttributesRoundTrip) {
  Model model;
  model.input("image", {1, 8, 6, 6});
  model.initializer("w", {8, 1, 3, 3});
  auto& conv = model.node("Conv", "conv", {"image", "w"}, {"y"});
  auto& group = *conv.add_attribute();
  group.set_name("group");
  group.set_type(onnx::AttributeProto::INT);
  group.set_i(8);
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.conv_groups(find(graph, "conv")), 8);
  EXPECT_EQ(graph.flops(find(graph, "conv")), 2 * 8 * 16 * 9);
  EXPECT_EQ(graph.attrs_json(find(graph, "conv")), R"({"groups":8})");
}

TEST(Onnx, GraphsAreCalledAfterTheirFileWhereTheExporterNamesAllAlike) {
  for (const auto& [name, called] :
       {std::pair{"main_graph", "m"}, {"torch_jit", "m"}, {"", "m"}, {"bert", "bert"}}) {
    Model model;
    model.graph().set_name(name);
    model.node("Relu", "relu", {"x"}, {"y"});
    EXPECT_EQ(model.read().value().name(), called);
  }
}

TEST(Onnx, SizesThatDependOnDataCountAsTheirMaximumOrAsGiven) {
  Model model;
  model.input("boxes", {2, 5, 4});
  model.input("scores", {2, 3, 5});
  auto& most = model.initializer("most", {1}, onnx::TensorProto::INT64);
  most.add_int64_data(4);
  model.node("NonZero", "where", {"x"}, {"at"});
  model.node("Transpose", "turned", {"at"}, {"rows"});
  model.node("NonMaxSuppression", "nms", {"boxes", "scores", "most"}, {"kept"});
  model.node("Unique", "unique", {"x"}, {"values", "first", "inverse", "counts"});
  model.node("Shape", "shape", {"rows"}, {"sizes"});
  const OpGraph graph = model.read().value();
  EXPECT_THAT(shape(graph, "turned"), ElementsAre(16, 2));
  EXPECT_THAT(shape(graph, "nms"), ElementsAre(2 * 3 * 4, 3));
  EXPECT_THAT(shape(graph, "unique"), ElementsAre(16));
  EXPECT_THAT(graph_notes(graph),
              Contains(AllOf(HasSubstr("at.1 (16), kept.0 (24), values.0 (16), first.0 (16) and 1 more"),
                             HasSubstr("--shape at.1=N"))));
  const OpGraph given = model.read({.named = {{"at.1", 7}, {"kept.0", 0}}, .batch = {}}).value();
  EXPECT_THAT(shape(given, "turned"), ElementsAre(7, 2));
  EXPECT_THAT(shape(given, "nms"), ElementsAre(0, 3));
  EXPECT_THAT(model.error({.named = {{"at.0", 7}}, .batch = {}}), HasSubstr("no dimension called 'at.0'"));
}

TEST(Onnx, SizesThatTheFileDeclaresForDataWin) {
  // An exporter's symbol for the size, and a shape that it knows better than the rule.
  Model model;
  model.node("NonZero", "where", {"x"}, {"at"});
  model.node("Compress", "some", {"x", "mask"}, {"few"});
  model.initializer("mask", {6}, onnx::TensorProto::BOOL);
  model.node("Mystery", "mine", {"at"}, {"far"});
  const auto declare = [&](const char* name, int type, std::vector<const char*> dims) {
    auto& value = *model.graph().add_value_info();
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    for (const char* dim : dims) {
      auto& one = *value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
      if (std::isdigit(dim[0]) != 0)
        one.set_dim_value(std::stol(dim));
      else
        one.set_dim_param(dim);
    }
  };
  declare("at", onnx::TensorProto::INT64, {"2", "u0"});
  declare("few", onnx::TensorProto::FLOAT, {"3"});
  declare("far", onnx::TensorProto::FLOAT, {"u0", "5"});
  const OpGraph graph = model.read().value();
  EXPECT_THAT(shape(graph, "where"), ElementsAre(2, 16));
  EXPECT_THAT(shape(graph, "some"), ElementsAre(3));
  EXPECT_THAT(shape(graph, "mine"), ElementsAre(16, 5));
  const OpGraph given = model.read({.named = {{"u0", 9}}, .batch = {}}).value();
  EXPECT_THAT(shape(given, "mine"), ElementsAre(9, 5));
}

TEST(Onnx, SizesOfAnyTensorAreGiven) {
  Model model;
  model.node("Mystery", "mine", {"x"}, {"far"});
  model.node("Relu", "relu", {"far"}, {"y"});
  EXPECT_THAT(model.error(), AllOf(HasSubstr("node 'mine'"), HasSubstr("--shape far.0=…,far.1=…")));
  auto& value = *model.graph().add_value_info();
  value.set_name("far");
  value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  EXPECT_THAT(shape(model.read({.named = {{"far.0", 3}, {"far.1", 4}}, .batch = {}}).value(), "relu"),
              ElementsAre(3, 4));
  value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(3);
  value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
  EXPECT_THAT(model.error(), HasSubstr("--shape far.1=…"));
  EXPECT_THAT(shape(model.read({.named = {{"far.1", 4}}, .batch = {}}).value(), "relu"), ElementsAre(3, 4));
}

TEST(Onnx, ReadsShapeValuesFromTheDataFile) {
  const std::filesystem::path folder = std::filesystem::path{::testing::TempDir()} / "onnx_shape_values";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "data");
  Model model;
  auto& sizes = model.initializer("sizes", {2}, onnx::TensorProto::INT64);
  sizes.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto entry = [&](const char* key, const char* value) {
    auto& one = *sizes.add_external_data();
    one.set_key(key), one.set_value(value);
  };
  entry("location", "data/w.bin"), entry("offset", "8"), entry("length", "16");
  model.node("Split", "split", {"x", "sizes"}, {"a", "b"}).add_attribute()->set_name("axis");
  auto& axis = *model.graph().mutable_node(0)->mutable_attribute(0);
  axis.set_type(onnx::AttributeProto::INT), axis.set_i(1);
  const std::string text = model.proto().SerializeAsString();
  ASSERT_TRUE(write_file(folder / "m.onnx", text).ok());
  EXPECT_THAT(load_graph(folder / "m.onnx").error().context,
              AllOf(HasSubstr("put the file 'data/w.bin' with the values of 'sizes' beside the model")));
  const std::int64_t values[]{99, 3, 5};
  const std::string raw{reinterpret_cast<const char*>(values), sizeof values};
  ASSERT_TRUE(write_file(folder / "data" / "w.bin", raw).ok());
  const auto graph = load_graph(folder / "m.onnx");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_THAT(shape(*graph, "split"), ElementsAre(2, 3));
  // A link may lead out of the folder; a file may be too short.
  ASSERT_TRUE(write_file(folder / "elsewhere", raw).ok());
  std::filesystem::remove(folder / "data" / "w.bin");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "data" / "w.bin");
  EXPECT_FALSE(load_graph(folder / "m.onnx").ok());
  std::filesystem::remove(folder / "data" / "w.bin");
  ASSERT_TRUE(write_file(folder / "data" / "w.bin", raw.substr(0, 23)).ok());
  EXPECT_FALSE(load_graph(folder / "m.onnx").ok());
}

TEST(Onnx, RefusesTensorsWithoutShapeOrProducer) {
  Model shapeless;
  shapeless.node("Mystery", "nz", {"x"}, {"y"});
  shapeless.graph().add_output()->set_name("y");
  EXPECT_THAT(shapeless.error(), AllOf(HasSubstr("node 'nz'"), HasSubstr("'y' has no shape")));
  Model dangling;
  dangling.node("Add", "add", {"x", "ghost"}, {"y"});
  *dangling.graph().add_value_info() = dangling.graph().input(0);
  dangling.graph().mutable_value_info(0)->set_name("y");
  EXPECT_THAT(dangling.error(), AllOf(HasSubstr("node 'add'"), HasSubstr("'ghost', which no node produces")));
  Model twice;
  twice.node("Relu", "a", {"x"}, {"y"});
  twice.node("Relu", "b", {"x"}, {"y"});
  EXPECT_NE(twice.error(), "accepted");
}

TEST(Onnx, NamesTheNodesOfACycle) {
  Model model;
  model.node("Add", "p", {"x", "b"}, {"a"});
  model.node("Relu", "q", {"a"}, {"b"});
  for (const char* name : {"a", "b"}) {
    *model.graph().add_value_info() = model.graph().input(0);
    model.graph().mutable_value_info()->rbegin()->set_name(name);
  }
  EXPECT_THAT(model.error(), AllOf(HasSubstr("cycle of 2 ops"), HasSubstr("'p'"), HasSubstr("'q'")));
}

TEST(Onnx, RefusesSizesThatOverflow) {
  Model model;
  model.initializer("w", {std::int64_t{1} << 40, std::int64_t{1} << 40});
  model.node("Identity", "i", {"w"}, {"y"});
  EXPECT_NE(model.error(), "accepted");
  Model negative;
  negative.initializer("w", {-4});
  negative.node("Identity", "i", {"w"}, {"y"});
  EXPECT_NE(negative.error(), "accepted");
}

TEST(Onnx, RefusesTruncatedFilesAndOtherBytes) {
  Model model;
  model.node("Relu", "r", {"x"}, {"y"});
  const std::string whole = model.proto().SerializeAsString();
  for (std::size_t size = 1; size + 1 < whole.size(); ++size) {
    const auto cut = parse_graph(std::as_bytes(std::span{whole.data(), size}), "cut.onnx");
    EXPECT_FALSE(cut.ok() && cut->num_ops() > 2) << size;
  }
  const auto text = parse_graph(std::as_bytes(std::span{"hello", 5}), "hello.onnx");
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.error().context, HasSubstr("is not an ONNX model"));
}

TEST(OnnxFlops, FollowTheFormulasOfTheTracedGraphs) {
  const OnnxShape image{1, 16, 10, 10}, weight{32, 8, 3, 3}, out{1, 32, 8, 8}, bias{32};
  const auto flops = [](std::string_view type, std::vector<const OnnxShape*> inputs, const OnnxShape& output,
                        const nlohmann::json& attrs = nlohmann::json::object(),
                        bool floating = true) { return onnx_flops(type, inputs, output, attrs, floating); };
  EXPECT_EQ(flops("Conv", {&image, &weight}, out), 2 * 2048 * 72);
  EXPECT_EQ(flops("Conv", {&image, &weight, &bias}, out), 2 * 2048 * 72 + 2048);
  const OnnxShape up{16, 4, 2, 2};
  EXPECT_EQ(flops("ConvTranspose", {&image, &up}, {1, 4, 20, 20}), 2 * 1600 * 16);
  const OnnxShape a{5, 7, 3}, b{3, 4}, at{3, 7};
  EXPECT_EQ(flops("MatMul", {&a, &b}, {5, 7, 4}), 2 * 5 * 7 * 4 * 3);
  EXPECT_EQ(flops("Gemm", {&at, &b}, {7, 4}, {{"transA", 1}}), 2 * 7 * 4 * 3);
  const OnnxShape left{2, 3, 4}, right{2, 4, 5};
  EXPECT_EQ(flops("Einsum", {&left, &right}, {2, 3, 5}, {{"equation", "bij,bjk->bik"}}), 2 * 2 * 3 * 4 * 5);
  EXPECT_EQ(flops("MaxPool", {&image}, {1, 16, 5, 5}, {{"kernel_shape", {2, 2}}}), 400 * 4);
  EXPECT_EQ(flops("ReduceMean", {&image}, {1, 16}), 1600);
  EXPECT_EQ(flops("Softmax", {&b}, b), 60);
  EXPECT_EQ(flops("Add", {&b, &b}, b), 12);
  EXPECT_EQ(flops("Add", {&b, &b}, b, nlohmann::json::object(), false), 0);
  EXPECT_EQ(flops("Reshape", {&b}, b), 0);
  const OnnxShape x{10, 2, 8}, w{1, 16, 8}, r{1, 16, 4};
  EXPECT_EQ(flops("LSTM", {&x, &w, &r}, {10, 1, 2, 4}), 2 * 20 * (128 + 64) + 20 * 4 * 34);
}

TEST(OnnxFlops, NeverOverflow) {
  const OnnxShape huge{std::int64_t{1} << 40, std::int64_t{1} << 40};
  const std::vector<const OnnxShape*> inputs{&huge, &huge, &huge};
  for (const char* type : {"Conv", "MatMul", "Gemm", "Add", "Softmax", "ReduceSum", "LRN", "Attention"}) {
    const std::int64_t flops = onnx_flops(type, inputs, huge, nlohmann::json::object(), true).value();
    EXPECT_GE(flops, 0) << type;
    EXPECT_LE(flops, std::int64_t{1} << 60) << type;
  }
}

}  // namespace
}  // namespace emplace
