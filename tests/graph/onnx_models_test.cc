// Goal: models that current torch, torchvision, timm and transformers export by default are read unchanged:
// all of them, with torch's own count of flops, the bytes of the weights in the file, and a note for every op
// whose work is not counted. Method: 60 exported files without their weights, and 12 that other tools made of
// such files (tests/models/export_models.py makes them, models.json has torch's counts).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/formats/graph_file.h"

namespace emplace {
namespace {

const std::filesystem::path kOnnxModels = std::filesystem::path{EMPLACE_FIXTURES} / "onnx";

const nlohmann::json& onnx_truth() {
  static const nlohmann::json truth = nlohmann::json::parse(std::ifstream{kOnnxModels / "models.json"});
  return truth;
}

OpGraph read(const nlohmann::json& model) {
  ReadOptions options;
  std::vector<std::string> sizes;
  std::istringstream words{model.value("shape_options", "")};
  for (std::string word; words >> word;) sizes.push_back(word);
  options.dims = parse_open_dims(sizes).value();
  auto graph = load_graph(kOnnxModels / model.at("file").get<std::string>(), options);
  EXPECT_TRUE(graph.ok()) << graph.error().context;
  return *std::move(graph);
}

/// What FlopCounterMode counts: matrix products, convolutions, recurrences, attention.
std::int64_t product_flops(const OpGraph& graph) {
  static const std::set<std::string_view> kProducts{"Conv",
                                                    "ConvTranspose",
                                                    "ConvInteger",
                                                    "QLinearConv",
                                                    "Gemm",
                                                    "MatMul",
                                                    "MatMulInteger",
                                                    "LSTM",
                                                    "GRU",
                                                    "RNN",
                                                    "Einsum",
                                                    "Attention",
                                                    "QLinearMatMul",
                                                    "If",
                                                    "Loop",
                                                    "com.microsoft::MatMulNBits",
                                                    "com.microsoft::Attention",
                                                    "com.microsoft::QGemm",
                                                    "com.microsoft::MatMulIntegerToFloat",
                                                    "com.microsoft::DynamicQuantizeMatMul"};
  static const std::map<std::string_view, std::int64_t> kGates{{"LSTM", 34}, {"GRU", 25}, {"RNN", 7}};
  std::int64_t flops = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (kProducts.contains(graph.type_name(op))) flops += graph.flops(op);
    // FlopCounterMode does not count the element-wise work of the gates.
    if (const auto gates = kGates.find(graph.type_name(op)); gates != kGates.end())
      flops -= gates->second * graph.bytes(graph.first_output(op)) / 4;
  }
  return flops;
}

std::int64_t parameter_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.type_name(OpId{i}) == "Parameter") bytes += graph.param_bytes(OpId{i});
  return bytes;
}

class ExportedModel : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ExportedModel, HasTheWorkAndWeightsThatTorchCounts) {
  const nlohmann::json& model = onnx_truth().at("models").at(GetParam());
  SCOPED_TRACE(model.at("name").get<std::string>());
  const OpGraph graph = read(model);
  const double flops = model.at("flops").get<double>();
  EXPECT_NEAR(static_cast<double>(product_flops(graph)), flops, 0.02 * flops);
  EXPECT_EQ(parameter_bytes(graph), model.at("initializer_bytes").get<std::int64_t>() +
                                        model.at("scalar_parameter_bytes").get<std::int64_t>() +
                                        model.value("scalar_buffer_bytes", 0));
  EXPECT_THAT(uncounted_ops(graph), ::testing::IsEmpty());
  EXPECT_GE(graph.num_ops(), model.at("nodes").get<std::size_t>());
}

TEST_P(ExportedModel, KnowsTheModuleOfEveryOp) {
  const OpGraph graph = read(onnx_truth().at("models").at(GetParam()));
  std::size_t scoped = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.is_state(OpId{i})) continue;
    scoped += graph.group_name(OpId{i}).empty() ? 0 : 1;
  }
  EXPECT_GT(scoped, 0u);
  EXPECT_GE(graph.num_groups(), 2u);
}

std::string name_of(const ::testing::TestParamInfo<std::size_t>& info) {
  return onnx_truth().at("models").at(info.param).at("name").get<std::string>();
}
INSTANTIATE_TEST_SUITE_P(Zoo, ExportedModel,
                         ::testing::Range(std::size_t{0}, onnx_truth().at("models").size()), name_of);

TEST(ExportedModels, AreSixty) { EXPECT_EQ(onnx_truth().at("models").size(), 60u); }

TEST(ExportedModels, ChangedByOtherToolsKeepTheirWork) {
  for (const nlohmann::json& model : onnx_truth().at("extra")) {
    SCOPED_TRACE(model.at("name").get<std::string>());
    const OpGraph graph = read(model);
    const double flops = model.at("flops").get<double>() / model.value("iterations", 1);
    // The bodies include additions, which torch does not count.
    const bool whole_bodies = graph_notes(graph).size() > 0;
    EXPECT_NEAR(static_cast<double>(product_flops(graph)), flops, (whole_bodies ? 0.06 : 0.02) * flops);
    // A loop whose length is not in the file counts as one iteration, and is named.
    EXPECT_EQ(uncounted_ops(graph).size(), model.contains("iterations") ? 1u : 0u);
  }
}

}  // namespace
}  // namespace emplace
