// Goal: TensorFlow's files are read in all usual forms: SavedModels, .meta files, functions, captured
// variables, loops, unknown sizes, tens of thousands of control edges. Method: graphs that TensorFlow wrote
// (tests/models/tensorflow_graphs.py) against TensorFlow's own counts, and functions by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "graph/formats/graph_file.h"
#include "graph/formats/tensorflow/tf_joins.h"
#include "tests/graph/graph_text.h"

namespace emplace {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kTfFiles = std::filesystem::path{EMPLACE_FIXTURES} / "tensorflow";

OpGraph load(const std::string& name, const ReadOptions& options = {}) {
  auto graph = load_graph(kTfFiles / name, options);
  EXPECT_TRUE(graph.ok()) << graph.error().context;
  return std::move(graph).value();
}
json tf_truth(const std::string& name) {
  std::ifstream file{kTfFiles / "truth.json"};
  return json::parse(file).at(name);
}
json meta_of(const OpGraph& graph) { return json::parse(graph.meta_json()); }

Result<OpGraph> read_tf(std::string_view text, std::string_view where = "g.pbtxt") {
  return read_text(where, text);
}
std::string tf_error(std::string_view text) { return refusal_of("g.pbtxt", text); }

OpId leader(const OpGraph& graph, OpId op) {
  while (graph.colocated_with(op) != kNoOp) op = graph.colocated_with(op);
  return op;
}

/// Bytes by kind of state, constants left out, and flops and ops by type.
struct Sums {
  std::map<std::string, std::int64_t> state;
  std::map<std::string, std::int64_t> flops;
  std::map<std::string, std::size_t> ops;
  std::int64_t variables = 0, work = 0;
};
Sums sums(const OpGraph& graph) {
  Sums found;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    const std::string type{graph.type_name(op)};
    ++found.ops[type];
    found.flops[type] += graph.flops(op);
    found.work += graph.flops(op);
    found.state[type] += graph.param_bytes(op);
    if (!json::parse(graph.attrs_json(op)).value("tf_type", "Const").starts_with("Const"))
      found.variables += graph.param_bytes(op);
  }
  return found;
}

// ---- captured variables and functions --------------------------------------------------------------------

TEST(TfFiles, CapturedVariablesAreStateOfTheFunction) {
  const OpGraph graph = load("transformer_step.pb.gz");
  const Sums found = sums(graph);
  const json expected = tf_truth("transformer_step");
  EXPECT_EQ(found.variables, expected["state_bytes"].get<std::int64_t>());
  EXPECT_EQ(found.state.at("Parameter"), expected["trained_bytes"].get<std::int64_t>());
  EXPECT_EQ(found.state.at("OptimizerState"), 2 * found.state.at("Parameter"));
  EXPECT_EQ(found.state.at("Buffer"), 12) << "the step's number and the learning rate";
  EXPECT_EQ(meta_of(graph)["kind"], "training");
  // The step's own arithmetic equals TensorFlow's count, except for what it does not count or counts wrong.
  for (const char* type : {"MatMul", "Mul", "Softmax", "BiasAdd"})
    EXPECT_NEAR(static_cast<double>(found.flops.at(type)), expected["flops"]["by_type"].value(type, 0.0),
                0.02 * expected["flops"]["by_type"].value(type, 0.0) + 64)
        << type;
  EXPECT_GT(found.flops.at("Einsum"), 0);
  EXPECT_FALSE(meta_of(graph).contains("uncounted"));
}

TEST(TfFiles, NotesVariablesOfUnknownSize) {
  const auto graph = read_tf(R"(
    node { name: "v" op: "Placeholder" attr { key: "dtype" value { type: DT_RESOURCE } } }
    node { name: "x" op: "Placeholder" attr { key: "shape" value { shape { dim { size: 4 } } } } }
    node { name: "seen" op: "VarIsInitializedOp" input: "v" attr { key: "_output_shapes" value { list { shape { } } } } }
    node { name: "y" op: "Relu" input: "x" })");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_THAT(graph_notes(*graph), Contains(AllOf(HasSubstr("variables of unknown size: 1"), HasSubstr("'v'"),
                                                  HasSubstr("add_shapes=True"))));
}

TEST(TfFiles, InlinesNestedFunctionsUnderTheNamesOfTheirCalls) {
  const OpGraph graph = load("nested.pb.gz");
  const Sums found = sums(graph);
  EXPECT_EQ(found.variables, 544768);
  EXPECT_EQ(found.ops.at("MatMul"), 3u);
  EXPECT_EQ(found.flops.at("MatMul"), 2 * 32 * 256 * (256 + 256 + 20));
  EXPECT_EQ(meta_of(graph)["inlined_calls"], 3);
  const OpId second = op_named(graph, "StatefulPartitionedCall_1/matmul");
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(second)[0])), "StatefulPartitionedCall/Identity");
  const OpId call = op_named(graph, "StatefulPartitionedCall");
  EXPECT_EQ(graph.type_name(call), "NoOp");
  EXPECT_TRUE(
      json::parse(graph.attrs_json(call))["function"].get<std::string>().starts_with("__inference_layer"));
}

TEST(TfFiles, FunctionLoopsHaveTheWorkOfLoweredLoops) {
  const Sums lowered = sums(load("lstm_lowered.pb.gz"));
  for (const char* name : {"lstm_functions.pb.gz", "lstm_functions.bare.pb.gz"}) {
    const OpGraph graph = load(name);
    const Sums found = sums(graph);
    EXPECT_EQ(found.work, lowered.work) << name;
    EXPECT_EQ(found.state.at("Parameter"), lowered.state.at("Parameter"));
    for (const char* type : {"MatMul", "Sigmoid", "Tanh", "Split", "TensorListGetItem"})
      EXPECT_EQ(found.ops.at(type), lowered.ops.at(type)) << type;
    EXPECT_EQ(meta_of(graph)["loops"].size(), 2u);
    std::map<std::string, OpId> loops;
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      const json own = json::parse(graph.attrs_json(OpId{i}));
      if (!own.contains("loop")) continue;
      const auto [it, fresh] = loops.try_emplace(own["loop"], leader(graph, OpId{i}));
      EXPECT_EQ(it->second, leader(graph, OpId{i})) << graph.name(OpId{i});
    }
    EXPECT_EQ(loops.size(), 2u);
  }
  // The weights, and the four zero states of 16 by 16, which freezing turned into constants.
  EXPECT_EQ(lowered.state.at("Parameter"),
            tf_truth("lstm_lowered")["trained_bytes"].get<std::int64_t>() + 4 * 16 * 16 * 4);
}

TEST(TfFiles, CountsAndNamesAllBranches) {
  const OpGraph graph = load("branches.pb.gz");
  EXPECT_EQ(sums(graph).variables, 64 * 64 * 4);
  EXPECT_EQ(sums(graph).ops.at("MatMul"), 2u) << "one in a branch, one in the loop";
  EXPECT_THAT(graph_notes(graph), Contains(HasSubstr("conditionals: 2; all branches count")));
  EXPECT_EQ(graph.type_name(op_named(graph, "cond/then/cond/matmul")), "MatMul");
  EXPECT_EQ(
      graph.type_name(op_named(graph, "switch_case/indexed_case/branch1/switch_case/indexed_case/Tanh")),
      "Tanh");
}

// ---- files -----------------------------------------------------------------------------------------------

TEST(TfFiles, SavedModelRunsItsServingSignature) {
  const OpGraph graph = load("saved_model.pb.gz");
  const Sums found = sums(graph);
  EXPECT_EQ(found.variables, tf_truth("saved_model")["trained_bytes"].get<std::int64_t>());
  EXPECT_EQ(found.ops.at("Conv2D"), 1u);
  EXPECT_THAT(graph_notes(graph), Contains(AllOf(HasSubstr("'serving_default'"), HasSubstr("not 'serve'"))));
  const OpGraph thirty_two = load("saved_model.pb.gz", {.dims = {.named = {}, .batch = 32}});
  EXPECT_EQ(sums(thirty_two).flops.at("Conv2D"), 32 * found.flops.at("Conv2D"));
  EXPECT_EQ(found.flops.at("Conv2D"), 2 * 10 * 10 * 8 * 27);
}

TEST(TfFiles, SavedModelIsNamedAfterItsFolder) {
  const auto folder = std::filesystem::path{::testing::TempDir()} / "tf_files_saved";
  std::filesystem::create_directories(folder);
  const auto bytes = read_graph_file(kTfFiles / "saved_model.pb.gz").value();
  ASSERT_TRUE(write_file(folder / "saved_model.pb", bytes).ok());
  const auto graph = load_graph(folder / "saved_model.pb");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->name(), "tf_files_saved");
  EXPECT_EQ(graph_sha256(*graph), graph_sha256(load("saved_model.pb.gz")));
}

TEST(TfFiles, MetaFileGivesItsGraph) {
  const OpGraph meta = load("mlp.meta.gz"), graph = load("mlp.pb.gz");
  EXPECT_EQ(graph_sha256(meta), graph_sha256(graph));
  EXPECT_EQ(meta.name(), "mlp");
  EXPECT_EQ(sums(meta).variables, tf_truth("mlp")["state_bytes"].get<std::int64_t>());
  const auto bytes = read_graph_file(kTfFiles / "mlp.meta.gz").value();
  EXPECT_EQ(recognise_format(bytes, "unnamed"), GraphFormat::kTfGraphdef);
}

TEST(TfFiles, ReadsTextForms) {
  const std::string graph =
      R"(graph_def { node { name: "x" op: "Placeholder" attr { key: "shape" value { shape { } } } } })";
  EXPECT_TRUE(read_tf("meta_info_def { tags: \"serve\" } " + graph, "unnamed").ok());
  const auto saved =
      read_tf("saved_model_schema_version: 1 meta_graphs { " + graph +
                  " signature_def { key: \"serving_default\" value { outputs { key: \"y\" value "
                  "{ name: \"x:0\" } } } } }",
              "unnamed");
  ASSERT_TRUE(saved.ok()) << saved.error().context;
  EXPECT_THAT(tf_error("saved_model_schema_version: 1"), HasSubstr("without a graph"));
  EXPECT_THAT(tf_error("meta_graphs { " + graph + " }"), HasSubstr("neither a signature nor a function"));
  EXPECT_THAT(
      tf_error(
          "meta_graphs { " + graph +
          " signature_def { key: \"s\" value { outputs { key: \"y\" value { name: \"ghost:0\" } } } } }"),
      AllOf(HasSubstr("'s'"), HasSubstr("'ghost:0'")));
}

TEST(TfFiles, ReadsEveryFormWithAndWithoutShapes) {
  for (const char* name :
       {"mlp", "control_edges", "rnnlm_small", "dynamic_rnn", "lstm_lowered", "lstm_functions"}) {
    const OpGraph with = load(std::string{name} + ".pb.gz"),
                  without = load(std::string{name} + ".bare.pb.gz");
    EXPECT_EQ(sums(with).variables, sums(without).variables) << name;
    EXPECT_EQ(sums(with).flops, sums(without).flops) << name;
    EXPECT_EQ(with.num_edges(), without.num_edges()) << name;
  }
  for (const char* name : {"mlp", "control_edges", "rnnlm_small", "dynamic_rnn"})
    EXPECT_EQ(sums(load(std::string{name} + ".pb.gz")).variables,
              tf_truth(name)["state_bytes"].get<std::int64_t>())
        << name;
}

TEST(TfFiles, SparseUpdatesBelongToTraining) {
  const Sums found = sums(load("rnnlm_small.pb.gz"));
  const auto trained = tf_truth("rnnlm_small")["trained_bytes"].get<std::int64_t>();
  EXPECT_EQ(found.state.at("Parameter"), trained) << "the embedding is among them";
  EXPECT_EQ(found.state.at("OptimizerState"), 2 * trained);
}

// ---- sizes -----------------------------------------------------------------------------------------------

TEST(TfFiles, OpenDimensionsTakeSizesByNameAndByBatch) {
  const OpGraph one = load("mlp.pb.gz");
  EXPECT_THAT(graph_notes(one),
              Contains(AllOf(HasSubstr("unknown dimensions: 2"), HasSubstr("x.0"), HasSubstr("y.0"))));
  const OpGraph by_batch = load("mlp.pb.gz", {.dims = {.named = {}, .batch = 32}});
  const OpGraph by_name = load("mlp.pb.gz", {.dims = {.named = {{"x.0", 32}, {"y.0", 32}}, .batch = {}}});
  EXPECT_EQ(graph_sha256(by_batch), graph_sha256(by_name));
  EXPECT_EQ(sums(by_batch).flops.at("MatMul"), 32 * sums(one).flops.at("MatMul"));
  EXPECT_THAT(graph_notes(by_batch), Not(Contains(HasSubstr("unknown dimensions"))));
  const auto wrong = load_graph(kTfFiles / "mlp.pb.gz", {.dims = {.named = {{"z.0", 32}}, .batch = {}}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().context, AllOf(HasSubstr("'z.0'"), HasSubstr("x.0")));
}

// ---- joins -----------------------------------------------------------------------------------------------

TEST(TfFiles, SharedControlEdgesUseAJoin) {
  const OpGraph graph = load("control_edges.pb.gz");
  EXPECT_EQ(meta_of(graph)["joins"], 1);
  const OpId join = op_named(graph, "emplace/join#0");
  EXPECT_EQ(index(join), graph.num_ops() - 1) << "op k is node k";
  EXPECT_FALSE(graph.is_view(join));
  EXPECT_EQ(graph.inputs(join).size(), 12u) << "two averages of each of six layers";
  EXPECT_GT(graph.consumers(graph.first_output(join)).size(), 30u);
  for (std::size_t c = 0; c < graph.measured_classes().size(); ++c) EXPECT_EQ(graph.measured_us(join, c), 0);
  EXPECT_LT(graph.num_edges(), 1'000u);
}

/// Reachability as bits: which must run before which.
std::vector<std::vector<bool>> before(const tf::Waits& waits) {
  std::vector<std::vector<bool>> all(waits.size(), std::vector<bool>(waits.size(), false));
  for (std::size_t i = 0; i < waits.size(); ++i)
    for (const std::uint32_t producer : waits[i]) all[i][producer] = true;
  return all;
}

TEST(TfJoins, KeepReachabilityWithFewerEdges) {
  tf::Waits waits(60);
  for (std::uint32_t i = 20; i < 60; ++i) {
    for (std::uint32_t producer = 0; producer < 15; ++producer) waits[i].push_back(producer);
    if (i % 3 == 0) waits[i].push_back(15 + i % 5);  // Some wait for more ops.
  }
  waits[19] = {0, 1, 2};
  const tf::Joins joins = tf::joined(waits);
  ASSERT_EQ(joins.producers.size(), 1u);
  tf::Waits again = joins.direct;
  std::size_t edges = joins.producers[0].size();
  for (std::size_t i = 0; i < again.size(); ++i) {
    edges += joins.direct[i].size() + joins.by_node[i].size();
    for (const std::uint32_t join : joins.by_node[i])
      again[i].insert(again[i].end(), joins.producers[join].begin(), joins.producers[join].end());
  }
  EXPECT_EQ(before(again), before(waits));
  EXPECT_LT(edges, 15u + 40 + 14 + 4);
}

TEST(TfJoins, LeaveSmallProductsUnchanged) {
  tf::Waits waits(8);
  for (std::uint32_t i = 4; i < 8; ++i) waits[i] = {0, 1, 2, 3};
  const tf::Joins joins = tf::joined(waits);
  EXPECT_TRUE(joins.producers.empty());
  EXPECT_EQ(joins.direct, waits);
}

// ---- what cannot be read ---------------------------------------------------------------------------------

constexpr std::string_view kInput =
    "node { name: \"x\" op: \"Placeholder\" attr { key: \"shape\" value { shape { dim { size: 4 } } } } }\n";

std::string call(const char* function, const char* inputs = "input: \"x\"") {
  return "node { name: \"c\" op: \"PartitionedCall\" " + std::string{inputs} +
         " attr { key: \"f\" value { func { name: \"" + function + "\" } } } }\n";
}
std::string function(const char* name, const std::string& body, const char* result) {
  return "function { signature { name: \"" + std::string{name} +
         "\" input_arg { name: \"a\" type: DT_FLOAT } output_arg { name: \"r\" type: DT_FLOAT } } " + body +
         " ret { key: \"r\" value: \"" + result + "\" } }\n";
}

std::string library(const std::string& functions) { return "library { " + functions + " }\n"; }

TEST(TfFunctions, PassTheirAttributesAndResultsOn) {
  const auto graph = read_tf(
      std::string{kInput} +
      library(function("f", R"(node_def { name: "n" op: "Concat" input: "k:output:0" input: "a" input: "a"
                                                      attr { key: "T" value { placeholder: "U" } } }
                                           node_def { name: "k" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } } } } }
                                           node_def { name: "s" op: "Unpack" input: "a" attr { key: "num" value { i: 4 } } })",
                       "s:output:2")) +
      R"(node { name: "d" op: "f" input: "x" attr { key: "U" value { type: DT_HALF } } }
                             node { name: "y" op: "Relu" input: "d" })");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  const OpId y = op_named(*graph, "y");
  EXPECT_EQ(graph->name(graph->producer(graph->inputs(y)[0])), "d/s");
  EXPECT_EQ(graph->inputs(y)[0], graph->output(op_named(*graph, "d/s"), 2));
  EXPECT_EQ(json::parse(graph->attrs_json(op_named(*graph, "d/n")))["T"], "DT_HALF");
}

TEST(TfFunctions, AreRefusedInOneLineIfTheyCannotBeInlined) {
  const std::string relu = R"(node_def { name: "n" op: "Relu" input: "a" })";
  EXPECT_THAT(tf_error(std::string{kInput} + call("ghost")), AllOf(HasSubstr("'c'"), HasSubstr("'ghost'")));
  EXPECT_THAT(
      tf_error(std::string{kInput} +
               library(function("f", R"(node_def { name: "again" op: "f" input: "a" })", "again:r:0")) +
               call("f")),
      AllOf(HasSubstr("'f'"), HasSubstr("calls itself")));
  EXPECT_THAT(tf_error(std::string{kInput} +
                       library(function("f", R"(node_def { name: "g" op: "g" input: "a" })", "g:r:0") +
                               function("g", R"(node_def { name: "f" op: "f" input: "a" })", "f:r:0")) +
                       call("f")),
              HasSubstr("calls itself"));
  EXPECT_THAT(tf_error(std::string{kInput} + library(function("f", relu, "n:activations:0")) + call("f", "")),
              HasSubstr("takes a different number"));
  EXPECT_THAT(tf_error(std::string{kInput} + library(function("f", relu, "m:out:0")) + call("f")),
              HasSubstr("neither an argument nor a node"));
  EXPECT_THAT(tf_error(std::string{kInput} + library(function("f", relu + relu, "n")) + call("f")),
              HasSubstr("twice"));
  EXPECT_THAT(tf_error(std::string{kInput} + "node { name: \"c\" op: \"PartitionedCall\" input: \"x\" }"),
              HasSubstr("has no function to call"));
  EXPECT_THAT(tf_error(std::string{kInput} + "node { name: \"c\" op: \"If\" input: \"x\" }"),
              HasSubstr("branches"));
  EXPECT_THAT(tf_error(std::string{kInput} + "node { name: \"c\" op: \"SymbolicGradient\" input: \"x\" }"),
              HasSubstr("cannot be inlined"));
  // Its own result is its argument, through a function that passes it on.
  EXPECT_THAT(tf_error(std::string{kInput} + library(function("f", relu, "a")) + call("f", "input: \"c\"") +
                       "node { name: \"y\" op: \"Relu\" input: \"c\" }"),
              HasSubstr("returns its own result"));
}

TEST(TfFunctions, AreRefusedIfTheyMultiplyBeyondMemory) {
  std::string functions;
  for (int k = 0; k < 30; ++k) {  // Each calls the next one twice: 2^30 nodes.
    const std::string next = k == 29 ? "Relu" : "f" + std::to_string(k + 1);
    functions += function(("f" + std::to_string(k)).c_str(),
                          "node_def { name: \"p\" op: \"" + next +
                              "\" input: \"a\" } node_def { name: \"q\" op: \"" + next + "\" input: \"a\" }",
                          "p");
  }
  EXPECT_THAT(tf_error(std::string{kInput} + library(functions) + call("f0")), HasSubstr("10^6 nodes"));
}

/// A message of wire-format fields: number and content.
std::string wire(std::initializer_list<std::pair<int, std::string>> fields) {
  std::string bytes;
  for (const auto& [number, content] : fields) {
    bytes += static_cast<char>(number << 3 | 2);
    if (content.size() >= 128) bytes += static_cast<char>(0x80 | (content.size() & 0x7f));
    bytes += static_cast<char>(content.size() < 128 ? content.size() : content.size() >> 7);
    bytes += content;
  }
  return bytes;
}

TEST(TfFiles, FieldsMayHaveAnyOrder) {
  // Attributes before the name, the library before the nodes, tags before the graph, the version last.
  const std::string attr = wire({{1, "dtype"}, {2, std::string{"\x30\x01"}}});
  const std::string shape = wire({{2, wire({{7, wire({{2, std::string{"\x08\x04"}}})}})}, {1, "shape"}});
  const std::string node = wire({{5, shape}, {5, attr}, {2, "Placeholder"}, {1, "x"}});
  const std::string function = wire({{3, node}, {1, wire({{1, "Double"}})}});
  const std::string graph = wire({{4, std::string{"\x08\x01"}}, {2, wire({{1, function}})}, {1, node}});
  const std::string output = wire({{1, "y"}, {2, wire({{1, "x:0"}})}});
  const std::string signature = wire({{1, "serving_default"}, {2, wire({{2, output}})}});
  const std::string meta = wire({{5, signature}, {2, graph}, {1, wire({{4, "serve"}})}});
  for (const std::string& file :
       {graph, meta, wire({{2, meta}}) + "\x08\x01", "\x08\x01" + wire({{2, meta}})}) {
    const auto read = read_tf(file, "unnamed");
    ASSERT_TRUE(read.ok()) << read.error().context;
    EXPECT_EQ(read->num_ops(), 1u);
    EXPECT_THAT(read->shape(TensorId{0}), ElementsAre(4));
  }
}

TEST(TfFiles, SizesOfWhatHasNoShapeAreGiven) {
  const std::string weight =
      R"(node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { )"
      R"(tensor { dtype: DT_FLOAT tensor_shape { dim { size: 64 } dim { size: 10 } } float_val: 0 } } } })";
  const auto with = [&](const std::string& more, const std::string& type) {
    return weight + R"( node { name: "x" op: ")" + type +
           R"(" attr { key: "dtype" value { type: DT_FLOAT } } )" + more +
           R"( } node { name: "y" op: "MatMul" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } } })" +
           R"( node { name: "z" op: "Relu" input: "y" attr { key: "T" value { type: DT_FLOAT } } })";
  };
  const ReadOptions sizes{.dims = {.named = {{"x.0", 8}, {"x.1", 64}}, .batch = {}}};
  for (const std::string& text :
       {with("", "Placeholder"), with("", "Mystery"),
        with(R"(attr { key: "shape" value { shape { unknown_rank: true } } })", "Placeholder")}) {
    const auto graph = read_text("g.pbtxt", text, sizes);
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    EXPECT_EQ(graph->flops(op_named(*graph, "y")), 2 * 8 * 64 * 10);
  }
  EXPECT_THAT(tf_error(with("", "Placeholder")),
              AllOf(HasSubstr("node 'x': has no shape in the file"), HasSubstr("--shape x.0=…,x.1=…")));
  EXPECT_THAT(tf_error(with("", "Mystery")), AllOf(HasSubstr("add_shapes=True"), HasSubstr("--shape x.0=…")));
  const ReadOptions other{.dims = {.named = {{"w.0", 8}}, .batch = {}}};
  EXPECT_THAT(refusal_of("g.pbtxt", with("", "Placeholder"), other), HasSubstr("no dimension called 'w.0'"));
}

TEST(TfFiles, ReadsSummariesFlagsAndQueuesWithoutShapes) {
  const std::string f32 = R"( attr { key: "T" value { type: DT_FLOAT } } )";
  const OpGraph graph =
      read_tf(
          R"(node { name: "queue" op: "FIFOQueueV2" attr { key: "component_types" value { list { type: DT_FLOAT type: DT_INT32 } } } )"
          R"(attr { key: "shapes" value { list { shape { dim { size: 3 } dim { size: 2 } } shape { } } } } } )"
          R"(node { name: "next" op: "QueueDequeueV2" input: "queue" attr { key: "component_types" value { list { type: DT_FLOAT type: DT_INT32 } } } } )"
          R"(node { name: "act" op: "Relu" input: "next" )" +
          f32 +
          R"(} node { name: "tag" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value { )"
          R"(tensor { dtype: DT_STRING tensor_shape { } string_val: "loss" } } } } )"
          R"(node { name: "size" op: "QueueSizeV2" input: "queue" } )"
          R"(node { name: "loss" op: "HistogramSummary" input: "tag" input: "act" )" +
          f32 + R"(} node { name: "image" op: "ImageSummary" input: "tag" input: "act" )" + f32 +
          R"(} node { name: "merged" op: "MergeSummary" input: "loss" input: "image" attr { key: "N" value { i: 2 } } })")
          .value();
  EXPECT_THAT(graph.shape(graph.output(op_named(graph, "act"), 0)), ElementsAre(3, 2));
  EXPECT_EQ(graph.bytes(graph.output(op_named(graph, "loss"), 0)), 1);
}

TEST(TfFiles, ReadsOrRefusesEveryTruncationInOneLine) {
  for (const char* name : {"saved_model.pb.gz", "mlp.meta.gz", "nested.pb.gz"}) {
    const auto whole = read_graph_file(kTfFiles / name).value();
    for (std::size_t size = 1; size < whole.size(); size += 1 + size / 16) {
      const auto graph = parse_graph(std::span{whole}.first(size), "cut.pb");
      if (!graph) {
        EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << size;
      }
    }
  }
}

}  // namespace
}  // namespace emplace
