// Goal: stages of a pipeline are consecutive layers, start only where the runtimes can cut, move as little
// work as possible, and report what they moved. Method: small models with known layers, all their cuts, and a
// traced network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "graph/formats/graph_file.h"
#include "placement/export/placement_export.h"
#include "placement/export/stages.h"
#include "tests/placement/export/folded_convolutions.h"
#include "tests/support/sample_graphs.h"

namespace emplace::interop {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kFourDevices{"gpu:0", "gpu:1", "gpu:2", "cpu:0"};

/// A chain of ops, one per given module, each with a weight.
OpGraph chain_of(const std::vector<std::string>& modules) {
  OpGraphBuilder builder;
  std::uint32_t last = 0;
  for (std::size_t k = 0; k < modules.size(); ++k) {
    OpSpec weight;
    weight.name = "w" + std::to_string(k);
    weight.type = "Parameter";
    weight.outputs = {{DType::kF32, {8}}};
    builder.add(weight);
    OpSpec op;
    op.name = "op" + std::to_string(k);
    op.type = "Add";
    op.group = modules[k];
    op.inputs = {{static_cast<std::uint32_t>(2 * k), 0}};
    if (k > 0) op.inputs.push_back({last, 0});
    op.outputs = {{DType::kF32, {8}}};
    op.flops = 100;
    last = static_cast<std::uint32_t>(2 * k + 1);
    builder.add(op);
  }
  return std::move(builder).build().value();
}

/// The devices of the chain's ops; weights are with them.
Placement placed(std::initializer_list<int> devices) {
  Placement placement;
  for (const int device : devices) placement.insert(placement.end(), 2, static_cast<DeviceId>(device));
  return placement;
}

Result<ExportedPlacement> staged_as(const char* format, const OpGraph& graph, const Placement& placement,
                                    const DeviceSet* machine = nullptr) {
  return export_placement(
      format, {.graph = graph, .devices = kFourDevices, .placement = placement, .machine = machine});
}

const std::vector<std::string> kDecoder{"model/embed",         "model/layers/0/attn", "model/layers/0/mlp",
                                        "model/layers/1/attn", "model/layers/1/mlp",  "model/layers/2/attn",
                                        "model/layers/2/mlp",  "model/norm",          "head"};

TEST(Pipelining, PlacementInLayerOrderIsExactAndNamesTheModulesThatStartStages) {
  const OpGraph graph = chain_of(kDecoder);
  const Placement placement = placed({2, 2, 2, 0, 0, 0, 1, 1, 1});
  const auto made = staged_as("pipelining", graph, placement);
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 0u);
  EXPECT_EQ(made->applied, placement);
  EXPECT_EQ(made->parts, 3u);
  const json stages = json::parse(made->content);
  EXPECT_EQ(stages["split_spec"],
            json::parse(R"({"model.layers.1": "BEGINNING", "model.layers.2.mlp": "BEGINNING"})"));
  ASSERT_EQ(stages["stages"].size(), 3u);
  EXPECT_EQ(stages["stages"][0]["torch_device"], "cuda:2");
  EXPECT_EQ(stages["stages"][1]["device"], "gpu:0");
  EXPECT_EQ(stages["stages"][2]["ops"], 3);
}

TEST(Pipelining, DeviceInTwoStagesIsLossyAndWeightsFollow) {
  const OpGraph graph = chain_of(kDecoder);
  const auto made = staged_as("pipelining", graph, placed({0, 0, 0, 1, 0, 1, 1, 1, 1}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 2u) << "op 4 and its weight";
  EXPECT_EQ(made->applied, placed({0, 0, 0, 1, 1, 1, 1, 1, 1}));
}

TEST(Pipelining, StepOfMicroBatchesHasItsPublishedSchedule) {
  const OpGraph graph = chain_of({"a", "b", "c", "d"});
  const auto made = [&](std::initializer_list<int> devices, Strategy strategy) {
    const Placement placement = placed(devices);
    const auto exported = export_placement(
        "pipelining",
        {.graph = graph, .devices = kFourDevices, .placement = placement, .strategy = strategy});
    EXPECT_TRUE(exported.ok() && exported->exact());
    return json::parse(exported->content);
  };
  const json two = made({0, 0, 1, 1}, {3, PipelineSchedule::k1F1B});
  EXPECT_EQ(two["micro_batches"], 3);
  EXPECT_EQ(two["schedule"], "1f1b");
  EXPECT_EQ(two["schedule_csv"], "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(made({0, 0, 1, 1}, {3, PipelineSchedule::kGPipe})["schedule_csv"],
            "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
  // A device with several stages is a rank with several stages. Ranks count in the order of their first one.
  const json four = made({2, 1, 2, 1}, {2, PipelineSchedule::k1F1B});
  EXPECT_EQ(four["split_spec"].size(), 3u);
  EXPECT_EQ(four["stages"][2]["rank"], 0);
  EXPECT_EQ(four["stages"][2]["device"], "gpu:2");
  EXPECT_EQ(four["stages"][3]["rank"], 1);
  EXPECT_EQ(four["schedule_csv"], "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
  EXPECT_FALSE(made({0, 0, 1, 1}, {}).contains("schedule_csv"));
}

TEST(Pipelining, StageThatReadsPastItsNeighbourIsLossyInSchedules) {
  OpGraphBuilder builder;
  for (std::uint32_t k = 0; k < 3; ++k) {
    OpSpec op;
    op.name = "op" + std::to_string(k);
    op.type = "Add";
    op.group = std::string{"m"} + std::to_string(k);
    if (k > 0) op.inputs = {{k - 1, 0}};
    if (k == 2) op.inputs.push_back({0, 0});
    op.outputs = {{DType::kF32, {8}}};
    op.flops = 100;
    builder.add(op);
  }
  const OpGraph graph = std::move(builder).build().value();
  const Placement placement{DeviceId{0}, DeviceId{1}, DeviceId{2}};
  const PlacementExport what{
      .graph = graph, .devices = kFourDevices, .placement = placement, .strategy = {.micro_batches = 2}};
  const auto made = export_placement("pipelining", what);
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 0u);
  EXPECT_THAT(made->losses, ElementsAre(HasSubstr("stage 2 reads from stage 0")));
}

TEST(Pipelining, NoOtherCutMovesLess) {
  const std::vector<std::string> modules{"a", "b", "c", "d", "e", "f", "g"};
  const OpGraph graph = chain_of(modules);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng{seed, Purpose::kTest};
    Placement placement;
    for (std::size_t k = 0; k < modules.size(); ++k)
      placement.insert(placement.end(), 2, static_cast<DeviceId>(rng.below(2)));
    const auto made = staged_as("pipelining", graph, placement);
    ASSERT_TRUE(made.ok()) << made.error().context;
    const DeviceId front = made->applied.front(), back = made->applied.back();
    if (front == back) continue;
    for (std::size_t at = 0; at <= modules.size(); ++at) {
      std::size_t moved = 0;
      for (std::size_t k = 0; k < modules.size(); ++k)
        moved += placement[2 * k] != (k < at ? front : back) ? 2 : 0;
      EXPECT_LE(made->moved_ops, moved) << "seed " << seed << ", cut at " << at;
    }
  }
}

TEST(Pipelining, ModuleThatRunsTwiceStartsNoStage) {
  // The same activation runs after both layers, so a stage that starts before it would start twice.
  const OpGraph graph = chain_of({"net/a", "net/a", "net/act", "net/b", "net/act"});
  const auto made = staged_as("pipelining", graph, placed({0, 0, 1, 1, 1}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(json::parse(made->content)["split_spec"], json::parse(R"({"net.b": "BEGINNING"})"));
  EXPECT_EQ(made->applied, placed({0, 0, 0, 1, 1}));
}

// An op that a batch norm was folded into has the scope of the batch norm and the weight of the convolution.
TEST(Pipelining, StageStartsWithTheConvolutionOfAFoldedBatchNorm) {
  const OpGraph graph = testing::folded_convolutions("net", 1);
  const auto made = staged_as("pipelining", graph, placed({0, 1}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(json::parse(made->content)["split_spec"], json::parse(R"({"net.conv2": "BEGINNING"})"));
  EXPECT_EQ(made->moved_ops, 0u);
  const auto layers = staged_as("deepspeed", graph, placed({0, 1}));
  ASSERT_TRUE(layers.ok()) << layers.error().context;
  EXPECT_EQ(json::parse(layers->content)["layers"], json::parse(R"(["net"])")) << "one layer, no list";
}

TEST(Deepspeed, LayersThatStartWithTheSameOpAreNotDivided) {
  const OpGraph graph = testing::folded_convolutions("", 0);
  const auto made = staged_as("deepspeed", graph, placed({1, 0}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(json::parse(made->content), json::parse(R"({"layers": ["conv0", "bn0", "conv1", "bn1"],
                                                        "parts": [0, 2, 4], "devices": ["cuda:1", "cuda:0"]})"));
  EXPECT_EQ(made->moved_ops, 0u);
}

TEST(Pipelining, GraphWithoutModulesIsRefused) {
  const OpGraph graph = chain_of({"", "", ""});
  for (const char* format : {"pipelining", "vllm", "deepspeed"}) {
    const auto refused = staged_as(format, graph, placed({0, 1, 1}));
    ASSERT_FALSE(refused.ok()) << format;
    EXPECT_THAT(refused.error().context, HasSubstr(std::string{"--to "} + format));
  }
}

TEST(Vllm, CountsTheLayersOfEachRank) {
  const OpGraph graph = chain_of(kDecoder);
  const auto made = staged_as("vllm", graph, placed({1, 1, 1, 0, 0, 0, 0, 0, 0}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->content,
            "# rank 0: cuda:1, layers 0 to 0\n# rank 1: cuda:0, layers 1 to 2\n"
            "VLLM_PP_LAYER_PARTITION=1,2\n");
  EXPECT_EQ(made->moved_ops, 0u);
  // Whole layers only, and no CPU beside GPUs.
  const auto lossy = staged_as("vllm", graph, placed({3, 1, 1, 1, 0, 0, 0, 0, 0}));
  ASSERT_TRUE(lossy.ok()) << lossy.error().context;
  EXPECT_THAT(lossy->content, HasSubstr("VLLM_PP_LAYER_PARTITION="));
  EXPECT_EQ(lossy->applied.front(), DeviceId{1});
  EXPECT_EQ(lossy->moved_ops, 4u);
}

TEST(Pipelining, TiedWeightIsALossAndItsCopiesAreState) {
  OpGraphBuilder builder;
  const auto add = [&](const char* name, const char* group, std::vector<EdgeSpec> inputs) {
    OpSpec spec;
    spec.name = name;
    spec.type = inputs.empty() ? "Parameter" : "Add";
    spec.group = group;
    spec.param_bytes = inputs.empty() ? 32 : 0;
    spec.inputs = std::move(inputs);
    spec.outputs = {{DType::kF32, {8, 1}}};
    builder.add(spec);
  };
  add("table.weight", "table", {});
  add("embed", "table", {{0, 0}});
  add("w", "layers/0", {});
  add("layer", "layers/0", {{1, 0}, {2, 0}});
  add("head", "head", {{3, 0}, {0, 0}});
  const OpGraph graph = std::move(builder).build().value();
  Placement placement(5, DeviceId{0});
  placement.back() = DeviceId{1};
  const auto made = staged_as("pipelining", graph, placement);
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 0u);
  EXPECT_FALSE(made->exact());
  EXPECT_THAT(made->losses, ElementsAre(HasSubstr("'table.weight'")));
  ASSERT_EQ(made->stages.size(), 2u);
  EXPECT_EQ(made->stages[0].state_bytes, 96) << "PyTorch keeps a copy per name in the first stage";
  EXPECT_EQ(made->stages[1].state_bytes, 32);
}

TEST(Pipelining, StageStartsBeforeTheElementOfAListNotBeforeTheList) {
  // PyTorch never calls a ModuleList, so that a cut before it would not happen.
  const auto made = staged_as("pipelining", chain_of(kDecoder), placed({0, 1, 1, 1, 1, 1, 1, 1, 1}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(json::parse(made->content)["split_spec"], json::parse(R"({"model.layers.0": "BEGINNING"})"));
}

TEST(Vllm, LayersOutOfOrderAreRefused) {
  const OpGraph graph = chain_of({"layers/0", "layers/2", "layers/1"});
  const auto refused = staged_as("vllm", graph, placed({0, 0, 1}));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, AllOf(HasSubstr("'layers.1'"), HasSubstr("out of order")));
}

TEST(Deepspeed, PartsAreBoundariesBetweenLayers) {
  const OpGraph graph = chain_of(kDecoder);
  const auto made = staged_as("deepspeed", graph, placed({0, 0, 0, 2, 2, 2, 2, 1, 1}));
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 0u);
  EXPECT_EQ(json::parse(made->content), json::parse(R"({
      "layers": ["model.embed", "model.layers.0", "model.layers.1", "model.layers.2", "model.norm", "head"],
      "parts": [0, 2, 4, 6], "devices": ["cuda:0", "cuda:2", "cuda:1"]})"));
}

TEST(Pipelining, BackwardOpsAndUpdatesFollowTheirModules) {
  const OpGraph graph =
      load_graph(std::filesystem::path{EMPLACE_FIXTURES} / "graphs" / "resnet50-bs32.json.gz").value();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const Placement placement = testing::random_placement(rng, graph.num_ops(), 3);
    const auto made = staged_as("pipelining", graph, placement);
    ASSERT_TRUE(made.ok()) << made.error().context;
    std::size_t moved = 0, changes = 0;
    DeviceId last = DeviceId{255};
    for (const OpId op : graph.topological_order()) {
      moved += made->applied[index(op)] != placement[index(op)] ? 1 : 0;
      if (graph.is_state(op) || graph.phase(op) != Phase::kForward) continue;
      changes += made->applied[index(op)] != last ? 1 : 0;
      last = made->applied[index(op)];
    }
    EXPECT_EQ(changes, made->parts) << "a stage is consecutive ops of one device";
    EXPECT_EQ(moved, made->moved_ops);
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      const OpId with = graph.colocated_with(OpId{i});
      EXPECT_EQ(made->applied[i], made->applied[with == kNoOp ? i : index(with)]);
    }
  }
}

}  // namespace
}  // namespace emplace::interop
