// Goal: ONNX beyond plain nodes is read correctly: functions, control flow, open dimensions, external and
// sparse weights, other domains, module names. Method: models made by the test, and for each property a file
// that violates it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "graph/formats/graph_file.h"
#include "graph/formats/onnx/onnx_model.h"
#include "tests/graph/onnx_model.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

onnx::AttributeProto& whole(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

void type_as(onnx::ValueInfoProto& value, const std::string& name, const std::vector<std::int64_t>& shape,
             int element = onnx::TensorProto::FLOAT) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(element);
  type.mutable_shape();
  for (const std::int64_t dim : shape) type.mutable_shape()->add_dim()->set_dim_value(dim);
}

void open_dim(onnx::ValueInfoProto& value, int axis, const std::string& name) {
  value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_param(name);
}

OpenDims dims(std::vector<std::string> texts) { return parse_open_dims(texts).value(); }

TEST(OnnxWeights, MayBeInAMissingFile) {
  Model model;
  auto& weight = model.initializer("w", {8, 1 << 20});
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *weight.add_external_data();
  entry.set_key("location");
  entry.set_value("absent.bin");
  model.node("MatMul", "mm", {"x", "w"}, {"y"});
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.param_bytes(find(graph, "w")), 8 * (1 << 20) * 4);
  EXPECT_THAT(shape(graph, "mm"), ElementsAre(2, 1 << 20));
  for (const char* outside : {"../../absent.bin", "/etc/passwd", "a/../../b", "..\\b"}) {
    entry.set_value(outside);
    EXPECT_THAT(model.error(), AllOf(HasSubstr("'w'"), HasSubstr("outside of the model's folder")))
        << outside;
  }
}

TEST(OnnxWeights, AreSkippedBeforeTheFileIsParsed) {
  Model model;
  model.initializer("w", {8, 64}).set_raw_data(std::string(8 * 64 * 4, 'w'));
  model.initializer("large", {64, 4096}).set_raw_data(std::string(64 * 4096 * 4, 'w'));
  model.node("MatMul", "a", {"x", "w"}, {"y"});
  model.node("MatMul", "b", {"y", "large"}, {"z"});
  const std::string whole = model.proto().SerializeAsString();
  const auto thin = onnx_io::without_weights(std::as_bytes(std::span{whole.data(), whole.size()}));
  ASSERT_TRUE(thin);
  EXPECT_LT(thin->size(), std::size_t{4096});
  EXPECT_NE(thin->find("www"), std::string::npos);
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.param_bytes(find(graph, "large")), 64 * 4096 * 4);
  for (std::size_t size = 1; size < whole.size(); size += 97) {
    const auto cut = parse_graph(std::as_bytes(std::span{whole.data(), size}), "cut.onnx");
    EXPECT_FALSE(cut.ok() && cut->num_ops() == graph.num_ops()) << size;
  }
}

TEST(OnnxWeights, CountStoredBytesIfPackedOrSparse) {
  Model model;
  model.initializer("q", {8, 63}, onnx::TensorProto::INT4);
  auto& sparse = *model.graph().add_sparse_initializer();
  for (const std::int64_t dim : {8, 1024}) sparse.add_dims(dim);
  sparse.mutable_values()->set_name("s");
  sparse.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse.mutable_values()->add_dims(100);
  sparse.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse.mutable_indices()->add_dims(100);
  model.initializer("scale", {2});
  model.node("DequantizeLinear", "dq", {"q", "scale"}, {"w"});
  model.node("MatMul", "mm", {"x", "w"}, {"y"});
  model.node("MatMul", "sm", {"x", "s"}, {"z"});
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.param_bytes(find(graph, "q")), 8 * 32);
  EXPECT_EQ(graph.param_bytes(find(graph, "s")), 100 * 4 + 100 * 8);
  EXPECT_THAT(shape(graph, "mm"), ElementsAre(2, 63));
  EXPECT_THAT(shape(graph, "sm"), ElementsAre(2, 1024));
}

TEST(OnnxWeights, IncludeScalarsNamedLikeParameters) {
  Model model;
  model.initializer("clip.logit_scale", {});
  model.initializer("val_7", {});
  model.node("Mul", "a", {"x", "clip.logit_scale"}, {"y"});
  model.node("Mul", "b", {"y", "val_7"}, {"z"});
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.type_name(find(graph, "clip.logit_scale")), "Parameter");
  EXPECT_EQ(graph.type_name(find(graph, "val_7")), "Constant");
}

TEST(OnnxDims, AreListedAndGivenByNameIfOpen) {
  Model model;
  auto& tokens = model.input("tokens", {1, 1, 8});
  open_dim(tokens, 0, "batch");
  open_dim(tokens, 1, "seq");
  auto& value = *model.graph().add_value_info();
  type_as(value, "odd", {0});
  open_dim(value, 0, "batch*(2*seq + 1)");
  model.node("Relu", "relu", {"tokens"}, {"y"});
  model.node("example::Odd", "odd", {"y"}, {"odd"}).set_domain("com.example");
  EXPECT_THAT(model.error(),
              AllOf(HasSubstr("have open dimensions: 'batch', 'seq'"), HasSubstr("--shape batch=…,seq=…")));
  EXPECT_THAT(model.error(dims({"batch=4"})),
              AllOf(HasSubstr("open dimensions: 'seq'"), HasSubstr("--shape seq=…")));
  EXPECT_THAT(model.error(dims({"batch=4,seq=3,width=2"})),
              AllOf(HasSubstr("no dimension called 'width'"), HasSubstr("it has batch, seq")));
  const OpGraph graph = model.read(dims({"batch=4", "seq=3"})).value();
  EXPECT_THAT(shape(graph, "relu"), ElementsAre(4, 3, 8));
  EXPECT_THAT(shape(graph, "odd"), ElementsAre(4 * 7));
  OpenDims batch = dims({"seq=3"});
  batch.batch = 5;
  EXPECT_THAT(shape(model.read(batch).value(), "relu"), ElementsAre(5, 3, 8));
}

TEST(OnnxDims, AreNamedByInputAndAxisIfUnnamed) {
  Model model;
  model.input("image", {-1, 3, -1});
  model.node("Relu", "relu", {"image"}, {"y"});
  EXPECT_THAT(model.error(), AllOf(HasSubstr("'image.0', 'image.2'"), HasSubstr("image.0=…,image.2=…")));
  OpenDims given = dims({"image.2=7"});
  given.batch = 2;
  EXPECT_THAT(shape(model.read(given).value(), "relu"), ElementsAre(2, 3, 7));
  Model fixed;
  fixed.node("Relu", "relu", {"x"}, {"y"});
  OpenDims batch;
  batch.batch = 2;
  EXPECT_THAT(fixed.error(batch), HasSubstr("no open first dimension for --batch"));
}

TEST(OnnxDims, AreRefusedIfThereIsNoShape) {
  Model none;
  none.input("tokens", {}).mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(none.error(), HasSubstr("has no shape"));
}

TEST(OnnxShapes, AreRefusedIfTheyContradict) {
  Model file;
  file.node("Relu", "relu", {"x"}, {"y"});
  type_as(*file.graph().add_value_info(), "y", {2, 9});
  EXPECT_THAT(file.error(), AllOf(HasSubstr("node 'relu'"), HasSubstr("[2, 9] in the file"),
                                  HasSubstr("[2, 8] by its inputs")));
  Model product;
  product.initializer("w", {7, 3});
  product.node("MatMul", "mm", {"x", "w"}, {"y"});
  EXPECT_THAT(product.error(), AllOf(HasSubstr("node 'mm'"), HasSubstr("[2, 8] and [7, 3]")));
  Model arguments;
  arguments.node("Gemm", "odd", {"x"}, {"y"});
  EXPECT_THAT(arguments.error(), AllOf(HasSubstr("node 'odd'"), HasSubstr("1 inputs"), HasSubstr("needs 2")));
}

TEST(OnnxShapes, FollowPadArithmeticOfTorchScript) {
  // Pads of [0, 0, 1, 2] as (dim, side) pairs from the last dimension on, reversed.
  Model model;
  const auto numbers = [&](const std::string& name, std::vector<std::int64_t> shape,
                           const std::vector<std::int64_t>& values) {
    auto& tensor = model.initializer(name, shape, onnx::TensorProto::INT64);
    for (const std::int64_t value : values) tensor.add_int64_data(value);
  };
  numbers("last", {2}, {1, 2});
  numbers("rest", {2}, {0, 0});
  numbers("pairs", {2}, {-1, 2});
  numbers("from", {1}, {-1});
  numbers("to", {1}, {std::numeric_limits<std::int64_t>::min()});
  numbers("flat", {1}, {-1});
  whole(model.node("Concat", "c", {"last", "rest"}, {"all"}), "axis", 0);
  model.node("Reshape", "r", {"all", "pairs"}, {"by_dim"});
  numbers("zero", {1}, {0});
  model.node("Slice", "s", {"by_dim", "from", "to", "zero", "from"}, {"turned"});
  auto& perm = *model.node("Transpose", "t", {"turned"}, {"by_side"}).add_attribute();
  perm.set_name("perm");
  perm.set_type(onnx::AttributeProto::INTS);
  perm.add_ints(1), perm.add_ints(0);
  model.node("Reshape", "f", {"by_side", "flat"}, {"pads"});
  model.node("Pad", "pad", {"x", "pads"}, {"y"});
  EXPECT_THAT(shape(model.read().value(), "pad"), ElementsAre(2, 11));
}

TEST(OnnxOps, UnknownOnesTakeShapesFromTheFileAndAreListed) {
  Model model;
  model.node("FusedGizmo", "odd", {"x"}, {"y"}).set_domain("com.example");
  model.node("Relu", "relu", {"y"}, {"z"});
  EXPECT_THAT(model.error(), AllOf(HasSubstr("node 'odd'"), HasSubstr("'y' has no shape")));
  type_as(*model.graph().add_value_info(), "y", {2, 8});
  const OpGraph graph = model.read().value();
  const auto uncounted = uncounted_ops(graph);
  ASSERT_EQ(uncounted.size(), 1u);
  EXPECT_EQ(uncounted[0].type, "com.example::FusedGizmo");
  EXPECT_EQ(uncounted[0].ops, 1u);
  EXPECT_EQ(uncounted[0].bytes, 2 * 2 * 8 * 4);
  EXPECT_DOUBLE_EQ(uncounted[0].share, 0.5);
  EXPECT_THAT(graph_notes(graph), ElementsAre(AllOf(HasSubstr("com.example::FusedGizmo (1, 50.0 %)"),
                                                    HasSubstr("bytes they move"))));
}

/// y = fc(relu(x)) as a function of the domain "mine", with the attribute `alpha` of its caller.
void add_function(Model& model, const std::string& name, const std::string& inner) {
  auto& function = *model.proto().add_functions();
  function.set_domain("mine");
  function.set_name(name);
  function.add_input("a"), function.add_output("c");
  auto& first = *function.add_node();
  first.set_op_type(inner);
  if (inner != "LeakyRelu") first.set_domain("mine");
  first.set_name("inner");
  first.add_input("a"), first.add_output("b");
  if (inner == "LeakyRelu") {
    auto& alpha = *first.add_attribute();
    alpha.set_name("alpha");
    alpha.set_ref_attr_name("slope");
    alpha.set_type(onnx::AttributeProto::FLOAT);
  }
  auto& second = *function.add_node();
  second.set_op_type("Exp");
  second.add_input("b"), second.add_output("c");
}

TEST(OnnxFunctions, AreInlinedWithNamesAndAttributesOfTheCall) {
  Model model;
  add_function(model, "Inner", "LeakyRelu");
  add_function(model, "Outer", "Inner");
  model.node("Outer", "one", {"x"}, {"y"}).set_domain("mine");
  auto& call = model.node("Inner", "two", {"y"}, {"z"});
  call.set_domain("mine");
  auto& slope = *call.add_attribute();
  slope.set_name("slope");
  slope.set_type(onnx::AttributeProto::FLOAT);
  slope.set_f(0.5);
  const OpGraph graph = model.read().value();
  std::vector<std::string> names;
  for (std::uint32_t i = 1; i < graph.num_ops(); ++i) names.emplace_back(graph.name(OpId{i}));
  EXPECT_THAT(names, ElementsAre("one/inner/inner", "one/inner/Exp", "one/Exp", "two/inner", "two/Exp"));
  EXPECT_THAT(shape(graph, "two/Exp"), ElementsAre(2, 8));
  EXPECT_EQ(graph.attrs_json(find(graph, "two/inner")), R"({"alpha":0.5})");
  EXPECT_EQ(graph.attrs_json(find(graph, "one/inner/inner")), "{}");
  EXPECT_EQ(graph.producer(graph.inputs(find(graph, "two/inner"))[0]), find(graph, "one/Exp"));
}

TEST(OnnxFunctions, AreRefusedIfRecursive) {
  Model model;
  add_function(model, "A", "B");
  add_function(model, "B", "A");
  model.node("A", "call", {"x"}, {"y"}).set_domain("mine");
  EXPECT_THAT(model.error(), AllOf(HasSubstr("calls the function 'A'"), HasSubstr("calls itself")));
}

TEST(OnnxFunctions, AreRefusedIfTheyMultiplyBeyondMemory) {
  Model model;
  add_function(model, "F0", "LeakyRelu");
  for (int level = 1; level < 24; ++level) {  // Each calls the one below twice.
    auto& function = *model.proto().add_functions();
    function.set_domain("mine");
    function.set_name("F" + std::to_string(level));
    function.add_input("a"), function.add_output("c");
    for (const auto& [from, to] : {std::pair{"a", "b"}, {"b", "c"}}) {
      auto& node = *function.add_node();
      node.set_op_type("F" + std::to_string(level - 1));
      node.set_domain("mine");
      node.add_input(from), node.add_output(to);
    }
  }
  model.node("F23", "call", {"x"}, {"y"}).set_domain("mine");
  EXPECT_THAT(model.error(), HasSubstr("more than 300000 nodes"));
}

/// A body with a product by a weight of its own and a read of "outer".
onnx::GraphProto& body_of(onnx::NodeProto& node, const std::string& attribute, std::int64_t columns) {
  auto& holder = *node.add_attribute();
  holder.set_name(attribute);
  holder.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *holder.mutable_g();
  body.set_name(attribute);
  auto& weight = *body.add_initializer();
  weight.set_name("w");
  weight.set_data_type(onnx::TensorProto::FLOAT);
  weight.add_dims(8), weight.add_dims(columns);
  auto& product = *body.add_node();
  product.set_op_type("MatMul");
  product.add_input("outer"), product.add_input("w"), product.add_output("p");
  auto& cut = *body.add_node();
  cut.set_op_type("ReduceSum");
  cut.add_input("p"), cut.add_output("r");
  body.add_output()->set_name("r");
  return body;
}

TEST(OnnxControlFlow, ConditionalIsOneOpWithTheCostOfItsCostlierBranch) {
  Model model;
  model.input("flag", {}).mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::BOOL);
  model.node("Relu", "before", {"x"}, {"outer"});
  auto& branch = model.node("If", "choose", {"flag"}, {"y"});
  body_of(branch, "then_branch", 100);
  body_of(branch, "else_branch", 70);
  model.graph().add_output()->set_name("y");
  const OpGraph graph = model.read().value();
  const OpId op = find(graph, "choose");
  EXPECT_EQ(graph.flops(op), 2 * 2 * 8 * 100 + 200);
  EXPECT_THAT(shape(graph, "choose"), ElementsAre(1, 1));
  EXPECT_EQ(graph.inputs(op).size(), 4u);  // The flag, the tensors that the branches read, and their weights.
  EXPECT_EQ(graph.producer(graph.inputs(op)[1]), find(graph, "before"));
  EXPECT_EQ(graph.param_bytes(find(graph, "choose/then_branch/w")), 8 * 100 * 4);
  EXPECT_EQ(graph.param_bytes(find(graph, "choose/else_branch/w")), 8 * 70 * 4);
  EXPECT_THAT(graph_notes(graph), ElementsAre(AllOf(HasSubstr("branches (If): 1"), HasSubstr("costlier"))));
}

TEST(OnnxControlFlow, CountsWeightsOfUnnamedNestedBodies) {
  Model model;
  model.input("flag", {}).mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::BOOL);
  model.node("Relu", "before", {"x"}, {"outer"});
  for (const char* result : {"y", "z"}) {
    auto& node = model.node("If", "", {"flag"}, {result});
    body_of(node, "then_branch", 10).set_name("g");
    auto& around = body_of(node, "else_branch", 20);
    around.set_name("g");
    auto& inner = *around.add_node();
    inner.set_op_type("If");
    inner.add_input("flag"), inner.add_output("deep");
    body_of(inner, "then_branch", 40).set_name("g");
    model.graph().add_output()->set_name(result);
  }
  const auto read = model.read();
  ASSERT_TRUE(read.ok()) << read.error().context;
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < read->num_ops(); ++i) bytes += read->param_bytes(OpId{i});
  EXPECT_EQ(bytes, 2 * 8 * (10 + 20 + 40) * 4);
}

TEST(OnnxControlFlow, LoopCountsIterationsIfTheFileStatesTheirNumber) {
  const auto build = [](bool known) {
    Model model;
    model.node("Relu", "before", {"x"}, {"outer"});
    if (known) {
      model.initializer("trips", {}, onnx::TensorProto::INT64).add_int64_data(12);
    } else {
      model.input("trips", {}).mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
    }
    auto& loop = model.node("Loop", "again", {"trips", "", "x"}, {"last", "all"});
    auto& body = body_of(loop, "body", 50);
    for (const char* name : {"i", "go", "carried"}) body.add_input()->set_name(name);
    body.clear_output();
    for (const char* name : {"go", "carried", "p"}) body.add_output()->set_name(name);
    if (!known) type_as(*model.graph().add_value_info(), "all", {3, 2, 50});
    return model.read().value();
  };
  const std::int64_t once = 2 * 2 * 8 * 50 + 100;
  const OpGraph counted = build(true);
  EXPECT_EQ(counted.flops(find(counted, "again")), 12 * once);
  const auto stacked = counted.shape(counted.output(find(counted, "again"), 1));
  EXPECT_THAT(std::vector(stacked.begin(), stacked.end()), ElementsAre(12, 2, 50));
  EXPECT_THAT(graph_notes(counted), ElementsAre(HasSubstr("loops (Loop, Scan): 1")));
  const OpGraph open = build(false);
  EXPECT_EQ(open.flops(find(open, "again")), once);
  EXPECT_THAT(graph_notes(open),
              ElementsAre(HasSubstr("loops (Loop, Scan): 1"), HasSubstr("loops of unknown length: 1"),
                          HasSubstr("unknown work: Loop (1")));
}

TEST(OnnxControlFlow, ScanRunsOncePerScannedElement) {
  Model model;
  model.input("sequence", {20, 2, 8});
  auto& scan = model.node("Scan", "each", {"sequence"}, {"all"});
  whole(scan, "num_scan_inputs", 1);
  auto& body = body_of(scan, "body", 5);
  body.mutable_node(0)->set_input(0, "step");
  body.add_input()->set_name("step");
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.flops(find(graph, "each")), 20 * (2 * 2 * 8 * 5 + 10));
  EXPECT_THAT(shape(graph, "each"), ElementsAre(20, 1, 1));
}

TEST(OnnxScope, IsTheInnermostModuleElseTheNodesName) {
  onnx::NodeProto node;
  node.set_name("/layers.0/attn/MatMul");
  EXPECT_EQ(onnx_io::onnx_scope(node), "layers.0/attn");
  auto& space = *node.add_metadata_props();
  space.set_key("namespace");
  space.set_value(": a.Net/model: a.Model/model.layers.0: a.Block/linear: aten.linear.default");
  EXPECT_EQ(onnx_io::onnx_scope(node), "model/layers/0");
  auto& scopes = *node.add_metadata_props();
  scopes.set_key("pkg.torch.onnx.name_scopes");
  scopes.set_value("['', 'model', 'model.layers.1', 'linear']");
  EXPECT_EQ(onnx_io::onnx_scope(node), "model/layers/1");
  scopes.set_value("['it\\'s', \"b\"]");
  EXPECT_EQ(onnx_io::onnx_scope(node), "it's");
  scopes.set_value("[");
  EXPECT_EQ(onnx_io::onnx_scope(node), "");
}

TEST(OnnxInputs, StringsCountOneByteAndAreNoted) {
  Model model;
  model.input("words", {3}).mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  model.node("Relu", "relu", {"x"}, {"y"});
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.bytes(graph.first_output(find(graph, "words"))), 3);
  EXPECT_THAT(graph_notes(graph), ElementsAre(HasSubstr("inputs of text: 1")));
}

TEST(OnnxMeta, KeepsTheModelsOutputsAndSmallConstants) {
  Model model;
  model.node("Split", "parts", {"x"}, {"a", "b"});
  model.graph().mutable_node(0)->mutable_attribute();
  whole(*model.graph().mutable_node(0), "axis", 1);
  auto& two = model.initializer("two", {}, onnx::TensorProto::INT64);
  two.add_int64_data(2);
  model.node("Unsqueeze", "u", {"b", "axes"}, {"c"});
  auto& axes = model.initializer("axes", {1}, onnx::TensorProto::INT64);
  axes.add_int64_data(0);
  for (const char* name : {"c", "a"}) model.graph().add_output()->set_name(name);
  const OpGraph graph = model.read().value();
  const auto meta = nlohmann::json::parse(graph.meta_json());
  EXPECT_EQ(meta.at("outputs"), nlohmann::json::parse("[[3, 0], [2, 0]]"));
  EXPECT_EQ(graph.attrs_json(find(graph, "axes")), R"({"value":[0]})");
  EXPECT_EQ(find(graph, "two"), kNoOp);
}

}  // namespace
}  // namespace emplace
