// Goal: the recorded networks equal torch's traces, and a family's graphs are sound, distinct, and the same
// on every machine. Method: the shipped NMT trace, op for op; then every graph of every family.

#include "graph/models/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/formats/graph_file.h"
#include "graph/grouping.h"
#include "graph/models/networks.h"
#include "graph/order.h"
#include "graph/tape/aten_tape.h"

namespace emplace::models {
namespace {

constexpr std::uint64_t kSeed = 1;

std::int64_t total_flops(const OpGraph& graph) {
  std::int64_t flops = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) flops += graph.flops(OpId{i});
  return flops;
}
std::int64_t state_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) bytes += graph.param_bytes(OpId{i});
  return bytes;
}

/// The properties that determine cost and place of an op.
std::string described(const OpGraph& graph, OpId op) {
  std::string text = std::string{graph.type_name(op)} + "/" + std::string{phase_name(graph.phase(op))} +
                     (graph.is_view(op) ? "/view" : "") + " flops=" + std::to_string(graph.flops(op)) +
                     " state=" + std::to_string(graph.param_bytes(op));
  for (const TensorId input : graph.inputs(op)) text += " <" + std::to_string(index(graph.producer(input)));
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
    text += " >" + std::to_string(graph.bytes(graph.output(op, k)));
  if (graph.colocated_with(op) != kNoOp) text += " with " + std::to_string(index(graph.colocated_with(op)));
  return text;
}

TEST(RecordedNetworks, NmtIsTheTracedStepOpForOp) {
  const auto traced = load_graph(EMPLACE_SOURCE_DIR "/configs/graphs/nmt-2layer-bs64.json.gz");
  ASSERT_TRUE(traced.ok());
  const auto made = nmt_graph({}, {.name = "nmt"});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->num_ops(), traced->num_ops());
  EXPECT_EQ(made->num_edges(), traced->num_edges());
  EXPECT_EQ(total_flops(*made), total_flops(*traced));
  EXPECT_EQ(state_bytes(*made), state_bytes(*traced));
  int shown = 0;
  for (std::uint32_t i = 0; i < std::min(made->num_ops(), traced->num_ops()) && shown < 5; ++i) {
    const std::string ours = described(*made, OpId{i}), theirs = described(*traced, OpId{i});
    EXPECT_EQ(ours, theirs) << "op " << i << ", " << traced->name(OpId{i}) << " in "
                            << traced->group_name(OpId{i});
    if (ours != theirs) ++shown;
  }
}

TEST(RecordedNetworks, NasnetHasTheTracedCounts) {
  const auto made = nasnet_a_graph({}, {.name = "nasnet"});  // Its trace is 7,541 ops of 97.1 GFLOP.
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->num_ops(), 7541u);
  EXPECT_EQ(made->num_edges(), 11472u);
  EXPECT_EQ(total_flops(*made) / 100'000'000, 971);
}

TEST(RecordedNetworks, RefuseInvalidOptions) {
  EXPECT_FALSE(nmt_graph({.hidden = 7}, {.name = "x"}).ok());
  EXPECT_FALSE(nmt_graph({.steps = 100}, {.name = "x"}).ok());
  EXPECT_FALSE(cell_rnn_graph({}, {.name = "x"}).ok());
  EXPECT_FALSE(cell_rnn_graph({.nodes = {{}, {.input = 1}}}, {.name = "x"}).ok());
  const CellBlock block{{0, 1}, {CellOp::kSepConv3, CellOp::kSepConv3}}, late{{0, 3}, {}};
  EXPECT_FALSE(cell_net_graph({.normal = {block}, .reduction = {late, block}}, {.name = "x"}).ok());
  EXPECT_FALSE(cell_net_graph({.normal = {block}, .reduction = {block}, .filters = 3}, {.name = "x"}).ok());
}

TEST(RecordedNetworks, DropUnneededOps) {
  AtenTape tape{Optimizer::kSgd};
  const Tensor x = tape.input("x", DType::kF32, {2, 3});
  const Tensor used = tape.parameter("used.weight", {4, 3}), unused = tape.parameter("unused.weight", {4, 3});
  const Tensor label = tape.input("label", DType::kI64, {2});
  (void)tape.linear(x, unused);
  const Tensor loss = tape.cross_entropy(tape.linear(x, used), label);
  const auto graph = tape.finish(loss, {"small", "", "{}"});
  ASSERT_TRUE(graph.ok());
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < graph->num_ops(); ++i) names.emplace_back(graph->name(OpId{i}));
  EXPECT_THAT(names,
              ::testing::ElementsAre("used.weight", "x", "label", "t_2", "mm_2", "_log_softmax_1",
                                     "nll_loss_forward_1", "ones_like_1", "nll_loss_backward_1",
                                     "_log_softmax_backward_data_1", "t_3", "mm_3", "t_4", "t_5", "add_1"));
}

class Families : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::Values(Family::kCifar10, Family::kPtb, Family::kNmt),
                         [](const auto& tested) { return std::string{facts(tested.param).name}; });

TEST_P(Families, EveryGraphIsASoundTrainingStepAndAllDiffer) {
  std::set<std::string> hashes;
  for (std::uint32_t i = 0; i < kFamilySize; ++i) {
    const auto graph = family_graph(GetParam(), kSeed, i);
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    hashes.insert(graph_sha256(*graph));
    EXPECT_TRUE(graph->ids_are_topological());
    EXPECT_GT(graph->num_ops(), 1000u) << graph->name();
    EXPECT_LT(graph->num_ops(), 20'000u) << graph->name();
    EXPECT_GT(total_flops(*graph), 20'000'000'000) << graph->name();
    std::map<Phase, std::size_t> phases;
    std::size_t parameters = 0, updated = 0;
    for (std::uint32_t k = 0; k < graph->num_ops(); ++k) {
      ++phases[graph->phase(OpId{k})];
      parameters += graph->type_name(OpId{k}) == "Parameter";
      const OpId with = graph->colocated_with(OpId{k});
      EXPECT_EQ(with != kNoOp, graph->phase(OpId{k}) == Phase::kUpdate);
      EXPECT_TRUE(with == kNoOp || graph->type_name(with) == "Parameter");
      updated += graph->phase(OpId{k}) == Phase::kUpdate && !graph->is_state(OpId{k});
    }
    EXPECT_GT(phases[Phase::kBackward], phases[Phase::kForward] / 4);
    EXPECT_EQ(updated % parameters, 0u) << "every parameter is updated alike";
    // There are more scopes than the paper's groups, and merging gives exactly these groups.
    const Grouping scopes = scope_groups(*graph);
    const std::size_t wanted = facts(GetParam()).groups;
    EXPECT_GT(scopes.num_groups, wanted);
    const std::vector<double> weight(scopes.num_groups, 1.0);
    EXPECT_EQ(merge_small_groups(*graph, scopes, weight, wanted).num_groups, wanted);
  }
  EXPECT_EQ(hashes.size(), kFamilySize);
}

TEST_P(Families, AreReproducibleAndRoundTrip) {
  const std::string folder = ::testing::TempDir();
  for (const std::uint32_t i : {0u, 17u}) {
    const auto first = family_graph(GetParam(), kSeed, i), again = family_graph(GetParam(), kSeed, i);
    const std::string sha = graph_sha256(*first);
    EXPECT_EQ(graph_sha256(*again), sha);
    EXPECT_NE(graph_sha256(*family_graph(GetParam(), kSeed + 1, i)), sha);
    for (const char* ending : {".json.gz", ".epg"}) {
      const std::string file = folder + first->name() + ending;
      ASSERT_TRUE(save_graph(*first, file).ok());
      const auto loaded = load_graph(file);
      ASSERT_TRUE(loaded.ok()) << loaded.error().context;
      EXPECT_EQ(graph_sha256(*loaded), sha) << file;
      EXPECT_EQ(loaded->meta_json(), first->meta_json());
    }
  }
}

TEST_P(Families, AreSplitAtRandomByTheSeed) {
  const FamilySplit split = split_family(GetParam(), kSeed);
  EXPECT_EQ(split.train.size(), 24u);
  EXPECT_EQ(split.test.size(), 8u);
  std::vector<std::uint32_t> all = split.train, expected(kFamilySize);
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::sort(all.begin(), all.end());
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(split_family(GetParam(), kSeed).test, split.test);
  EXPECT_NE(split_family(GetParam(), kSeed + 1).test, split.test);
  EXPECT_EQ(split_family(GetParam(), kSeed, 2).train.size(), 1u);
}

TEST(FamilyNames, MisspeltNameGetsTheNearest) {
  for (const FamilyFacts& known : all_families()) EXPECT_EQ(*find_family(known.name), known.family);
  EXPECT_EQ(facts(Family::kNmt).groups, 160u);
  EXPECT_THAT(find_family("cifar").error().context, ::testing::HasSubstr("did you mean 'cifar10'?"));
}

// A family is part of a result's meaning: a change here makes another family.
TEST(FamilyGraphs, AreTheSameOnEveryMachine) {
  const auto sha = [](Family family) { return graph_sha256(*family_graph(family, kSeed, 0)).substr(0, 16); };
  EXPECT_EQ(sha(Family::kCifar10), "3ede1d72b81b28db");
  EXPECT_EQ(sha(Family::kPtb), "704a118d32ac65bc");
  EXPECT_EQ(sha(Family::kNmt), "c894c79a53bf3198");
}

}  // namespace
}  // namespace emplace::models
