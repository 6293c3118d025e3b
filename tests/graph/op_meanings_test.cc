// Goal: the readers' view of an op type (is it a view, is it state, how much work has it) changes only on
// purpose, and with it every graph that they make. Method: each line of tests/fixtures/ops/meanings.txt is a
// type of one vocabulary and the reader's result for inputs of several shapes; graphs.txt has the work, the
// bytes and a fingerprint of every graph of the fixtures and of every generated one. EMPLACE_WRITE_MEANINGS=1
// graph_test writes both files again.
#include <gtest/gtest.h>
#include <onnx.pb.h>
#include <tf_graphdef.pb.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "graph/formats/graph_file.h"
#include "graph/formats/onnx/onnx_flops.h"
#include "graph/formats/onnx/onnx_types.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/torch/aten_ops.h"
#include "graph/training/training_graph.h"
#include "tests/graph/model_samples.h"

namespace emplace {
namespace {

using Shape = std::vector<std::int64_t>;

const std::filesystem::path kFixtures{EMPLACE_FIXTURES};

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Compares with the file, or writes it.
void expect_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  if (std::getenv("EMPLACE_WRITE_MEANINGS") != nullptr) {
    std::ofstream file{path};
    for (const std::string& line : lines) file << line << '\n';
  }
  const std::vector<std::string> expected = lines_of(path);
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], expected[i]);
}

/// Inputs and an output with distinct prime sizes, and attributes that formulas read.
struct Sample {
  std::vector<Shape> inputs;
  Shape output;
  bool attributes = false;
  DType dtype = DType::kF32;
};
const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples{
      {{{7, 5}, {5, 3}, {3, 11}}, {7, 3}},
      {{{7, 5}, {5, 3}, {3, 11}}, {7, 3}, true, DType::kI64},
      {{{2, 6, 9, 8}, {10, 6, 3, 2}, {10}}, {2, 10, 7, 6}, true},
      {{{2, 6, 9, 8}, {10, 6, 3, 2}}, {2, 10, 7, 6}},
      {{{4, 6, 5}, {4, 7, 5}, {4, 7, 9}, {4, 6, 9}}, {4, 6, 9}, true},
      {{{3, 2, 5, 7}, {2, 52, 7}, {2, 52, 13}, {104}, {3, 2, 11, 13}}, {3, 2, 5, 13}},
      {{{3, 2, 7}, {2, 52, 7}, {2, 52, 13}, {104}, {2, 52}}, {3, 2, 2, 13}, true},
      {{{7, 5}, {5, 3}}, {7, 3}, true},
      {{}, {}},
  };
  return kSamples;
}

std::string aten_meaning(const std::string& type) {
  std::string text;
  bool view = false;
  for (const Sample& sample : samples()) {
    AtenCall call;
    call.target = type.find("::") == std::string::npos ? "aten::" + type : type;
    for (const Shape& shape : sample.inputs) {
      AtenArg arg;
      arg.kind = AtenArg::Kind::kTensor;
      arg.number = static_cast<std::int64_t>(call.tensors.size());
      call.args.push_back(arg);
      call.tensors.push_back({{}, {DType::kF32, shape}});
    }
    const auto number = [](std::int64_t value) {
      AtenArg arg;
      arg.kind = AtenArg::Kind::kInt;
      arg.number = value;
      return arg;
    };
    const auto list = [&](const char* name, std::initializer_list<std::int64_t> values) {
      AtenArg arg;
      arg.kind = AtenArg::Kind::kList;
      arg.name = name;
      for (const std::int64_t value : values) arg.items.push_back(number(value));
      call.args.push_back(arg);
    };
    if (sample.attributes) {
      list("kernel_size", {3, 2});
      list("output_mask", {1, 0, 1});
      call.args.push_back(number(2));
      call.args.back().name = "alpha";
      call.args.push_back(number(1));
      call.args.back().name = "transposed";
    } else {
      call.args.push_back(number(3));
      call.args.back().name = "kernel_size";
    }
    OpSpec op;
    if (!sample.inputs.empty()) op.outputs = {{sample.dtype, sample.output}};
    const bool known = describe_aten(std::move(call), op);
    view = op.view;
    text += " " + (known ? std::to_string(op.flops) : "?");
  }
  return (view ? " view" : " -") + text;
}

std::string onnx_meaning(const std::string& type) {
  onnx::NodeProto node;
  const std::size_t domain = type.find("::");
  node.set_op_type(domain == std::string::npos ? type : type.substr(domain + 2));
  if (domain != std::string::npos) node.set_domain(type.substr(0, domain));
  node.add_input("x");
  const bool view = onnx_io::is_view(node);
  node.add_input("ratio");
  node.add_input("training");
  const bool always = onnx_io::is_view(node);
  std::string text = view ? (always ? " view" : " sometimes") : " -";
  for (const Sample& sample : samples()) {
    std::vector<const OnnxShape*> inputs;
    for (const Shape& shape : sample.inputs) inputs.push_back(&shape);
    nlohmann::json attrs = nlohmann::json::object();
    if (sample.attributes) {
      attrs = {{"transA", 1},    {"kernel_shape", {3, 2}}, {"mode", "linear"},  {"size", 5},
               {"num_heads", 3}, {"q_num_heads", 3},       {"kv_num_heads", 3}, {"equation", "ab,bc->ac"}};
    }
    const auto work = onnx_flops(type, inputs, sample.output, attrs, sample.dtype == DType::kF32);
    text += " " + (work ? std::to_string(*work) : "?");
  }
  return text;
}

std::string tensorflow_meaning(const std::string& type) {
  static constexpr std::array<std::string_view, 4> kRoles{"work", "variable", "constant", "placeholder"};
  const bool view = tf::is_view(type);
  std::string text = " " + std::string{kRoles[static_cast<std::size_t>(tf::role_of(type))]};
  if (view) text += " view";
  if (tf::is_update(type)) text += " update";
  if (tf::is_optimizer(type)) text += " optimizer";
  if (!view && tf::role_of(type) == tf::Role::kWork && !tf::work_is_known(type)) text += " ?";
  for (const Sample& sample : samples()) {
    tf::NodeDef node;
    node.set_op(type);
    const auto attribute = [&](const char* name) -> tf::AttrValue& {
      auto& attr = *node.add_attr();
      attr.set_key(name);
      return *attr.mutable_value();
    };
    if (sample.attributes) {
      attribute("transpose_a").set_b(true);
      attribute("adj_x").set_b(true);
      attribute("equation").set_s("ab,bc->ac");
      for (const std::int64_t side : {1, 3, 2, 1}) attribute("ksize").mutable_list()->add_i(side);
    }
    const std::vector<Shape> outputs(sample.inputs.empty() ? 0 : 1, sample.output);
    text += " " + std::to_string(tf::flops(node, sample.inputs, outputs, sample.dtype == DType::kF32));
  }
  return text;
}

std::string hlo_meaning(const std::string& type) {
  const std::size_t colon = type.find(':');
  const std::string opcode = type.substr(0, colon);
  const std::string target =
      colon == std::string::npos ? "" : ", custom_call_target=\"" + type.substr(colon + 1) + "\"";
  std::string text;
  for (const char* element : {"f32", "s32"}) {
    const std::string dtype{element};
    const std::string matrix = dtype + "[7,5]{1,0}";
    const std::string operands = opcode == "parameter" ? "2" : opcode == "constant" ? "{...}" : "%x, %w";
    const std::string module =
        "HloModule m\n\n%body (a: f32[7,5]) -> f32[7,5] {\n  %a = f32[7,5]{1,0} parameter(0)\n  ROOT %b = "
        "f32[7,5]{1,0} tanh(%a)\n}\n\nENTRY %main (x: f32[7,5]) -> f32[7,5] {\n  %x = " +
        matrix + " parameter(0)\n  %w = " + matrix + " parameter(1)\n  ROOT %y = " + dtype + "[3,5]{1,0} " +
        opcode + "(" + operands + "), to_apply=%body, lhs_contracting_dims={1}, window={size=3x2}, " +
        "dim_labels=bf_oi->bf" + target + "\n}\n";
    const auto graph = parse_graph(std::as_bytes(std::span{module.data(), module.size()}), "m.hlo",
                                   {.format = GraphFormat::kHlo});
    if (!graph) return " refused";
    const OpId last{static_cast<std::uint32_t>(graph->num_ops() - 1)};
    const bool unknown = graph->meta_json().find("uncounted") != std::string::npos;
    text += " " + std::string{graph->type_name(last)} + (graph->is_view(last) ? " view " : " ") +
            (unknown ? "?" : std::to_string(graph->flops(last)));
  }
  return text;
}

std::string meaning_of(const std::string& vocabulary, const std::string& type) {
  if (vocabulary == "aten") return aten_meaning(type);
  if (vocabulary == "onnx") return onnx_meaning(type);
  if (vocabulary == "tensorflow") return tensorflow_meaning(type);
  return hlo_meaning(type);
}

TEST(OpMeanings, EveryTypeHasItsRecordedMeaning) {
  const auto path = kFixtures / "ops/meanings.txt";
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(path)) {
    std::istringstream words{line};
    std::string vocabulary, type;
    words >> vocabulary >> type;
    lines.push_back(vocabulary + " " + type + meaning_of(vocabulary, type));
  }
  ASSERT_GT(lines.size(), 1000u);
  expect_lines(path, lines);
}

/// FNV-1a over all properties that the type of an op determines, op by op.
class Fingerprint {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  void add(std::int64_t number) { add(std::to_string(number) + ","); }
  std::string hex() const {
    std::ostringstream text;
    text << std::hex << hash_;
    return text.str();
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

/// "NAME: OPS ops, VIEWS views, STATE state, FLOPS flops, BYTES bytes, FINGERPRINT".
std::string line_of(const std::string& name, const Result<OpGraph>& graph) {
  if (!graph) return name + ": refused";
  std::int64_t flops = 0, bytes = 0;
  std::size_t views = 0, states = 0;
  Fingerprint fingerprint;
  for (const OpId op : models::ops_of(*graph)) {
    flops += graph->flops(op);
    views += graph->is_view(op) ? 1 : 0;
    states += graph->is_state(op) ? 1 : 0;
    for (std::size_t k = 0; k < graph->num_outputs(op); ++k) bytes += graph->bytes(graph->output(op, k));
    for (const std::string_view text : {graph->name(op), graph->type_name(op), graph->attrs_json(op)})
      fingerprint.add(text);
    for (const std::int64_t number :
         {graph->flops(op), std::int64_t{graph->is_view(op)}, std::int64_t{graph->is_state(op)},
          graph->param_bytes(op), graph->conv_groups(op), bytes})
      fingerprint.add(number);
    for (const TensorId input : graph->inputs(op)) fingerprint.add(static_cast<std::int64_t>(index(input)));
  }
  return name + ": " + std::to_string(graph->num_ops()) + " ops, " + std::to_string(views) + " views, " +
         std::to_string(states) + " state, " + std::to_string(flops) + " flops, " + std::to_string(bytes) +
         " bytes, " + fingerprint.hex();
}

/// Whether a file beside the graphs is no graph, or one that only the laboratory reads (tests/lab).
bool is_not_read(const std::filesystem::path& path) {
  static const std::set<std::string> kNames{"jax.json",    "torch.json", "models.json", "truth.json",
                                            "LICENSE.txt", "LICENSE",    "make_jax.py", "make_torch.py",
                                            "doppler.txt", "piper.json", "alexnet.txt"};
  return kNames.contains(path.filename().string());
}

TEST(OpMeanings, EveryGraphHasItsRecordedWorkAndBytes) {
  const std::map<std::string, std::string> open{
      {"formats/cnn_dynamic_forward.txt", "s77=4,s53=16"},
      {"formats/cnn_dynamic_backward.txt", "s77=4,s53=16"},
      {"formats/cnn_dynamic_dynamo.txt", "s77=4,s53=16"},
      {"formats/cnn_export.txt", "s77=4"},
      {"formats/llama_export.txt", "s46=2,s4=8"},
      {"formats/cnn.pt2", "s77=4"},
      {"formats/llama.pt2", "s46=2,s4=8"},
      {"onnx/bert_dynamic_shapes.onnx.zst", "batch=2,sequence=16"},
      {"onnx/llama_dynamic_shapes.onnx.zst", "batch=2,sequence=16"},
      {"onnx/resnet18_dynamic_batch.onnx.zst", "batch=2"},
  };
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"graphs", "formats", "onnx", "tensorflow", "third_party"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator{kFixtures / folder})
      if (entry.is_regular_file() && !is_not_read(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> lines;
  for (const auto& file : files) {
    const std::string name = file.lexically_relative(kFixtures).string();
    ReadOptions options;
    if (const auto given = open.find(name); given != open.end())
      options.dims = parse_open_dims(std::vector<std::string>{given->second}).value();
    const auto graph = load_graph(file, options);
    lines.push_back(line_of(name, graph));
    if (!graph || name.find(".onnx") == std::string::npos) continue;
    lines.push_back(line_of(name + " training", training_graph(*graph, models::Optimizer::kAdam)));
  }
  for (const auto& [model, sizes] : models::small_models())
    for (const auto granularity : {models::Granularity::kAten, models::Granularity::kTensorFlow})
      for (const bool training : {false, true})
        lines.push_back(line_of(std::string{model} + " " + std::string{word_of(granularity)} +
                                    (training ? " training" : " forward"),
                                models::model_graph(*models::find_model(model), sizes,
                                                    {.granularity = granularity, .training = training})));
  ASSERT_GT(lines.size(), 200u);
  expect_lines(kFixtures / "ops/graphs.txt", lines);
}

}  // namespace
}  // namespace emplace
