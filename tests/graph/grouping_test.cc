// Goal: groups follow their rules, keep colocation classes whole, and are the same on every run. Method:
// small graphs computed by hand; the quickstart's real graph; random graphs against the invariants.
#include "graph/grouping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "graph/cell_groups.h"
#include "graph/formats/graph_file.h"
#include "tests/graph/model_samples.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

OpSpec grouped_op(std::string name, std::string group, std::vector<EdgeSpec> inputs = {},
                  std::int64_t bytes = 4) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.type = "Work";
  spec.group = std::move(group);
  spec.inputs = std::move(inputs);
  spec.outputs = {{DType::kU8, {bytes}}};
  return spec;
}
OpSpec state(std::string name, std::string group = "") {
  OpSpec spec = grouped_op(std::move(name), std::move(group));
  spec.type = "Parameter";
  return spec;
}
OpGraph build(std::vector<OpSpec> ops) {
  OpGraphBuilder builder;
  for (OpSpec& spec : ops) builder.add(std::move(spec));
  return std::move(builder).build().value();
}

void expect_classes_whole(const OpGraph& graph, const Grouping& grouping) {
  ASSERT_EQ(grouping.group_of_op.size(), graph.num_ops());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    EXPECT_LT(grouping.group_of_op[i], grouping.num_groups);
    const OpId with = graph.colocated_with(OpId{i});
    if (with != kNoOp) {
      EXPECT_EQ(grouping.group_of_op[i], grouping.group_of_op[index(with)]);
    }
  }
}

TEST(Grouping, ColocationFollowsChainsOfMarks) {
  std::vector<OpSpec> ops{grouped_op("a", ""), grouped_op("b", ""), grouped_op("c", ""), grouped_op("d", "")};
  ops[1].colocate = OpId{3};
  ops[3].colocate = OpId{2};
  EXPECT_THAT(colocation_groups(build(ops)).group_of_op, ElementsAre(0, 1, 1, 1));
}

TEST(Grouping, OpsJoinTheirOnlyReaderRecursively) {
  // a → b → c, and both d and e read c, so that c and its ancestors are a group.
  const OpGraph graph =
      build({grouped_op("a", ""), grouped_op("b", "", {{0, 0}}), grouped_op("c", "", {{1, 0}}),
             grouped_op("d", "", {{2, 0}}), grouped_op("e", "", {{2, 0}})});
  EXPECT_THAT(recursive_colocation_groups(graph).group_of_op, ElementsAre(0, 0, 0, 1, 2));
}

TEST(Grouping, GroupsCountAsOpsInTheNextRoundOfTheRecursion) {
  // d joins e, its only reader; then c, read by d and e, is read by one group alone.
  const OpGraph graph = build({grouped_op("c", ""), grouped_op("d", "", {{0, 0}}),
                               grouped_op("e", "", {{0, 0}, {1, 0}}), grouped_op("f", "")});
  EXPECT_THAT(recursive_colocation_groups(graph).group_of_op, ElementsAre(0, 0, 0, 1));
}

TEST(Grouping, ScopesEndAtADepthAndMayShareTimeSteps) {
  const OpGraph graph = build({grouped_op("a", "dec/t00/l0"), grouped_op("b", "dec/t01/l0"),
                               grouped_op("c", "dec/t01/l1"), grouped_op("d", "enc")});
  EXPECT_THAT(scope_groups(graph).group_of_op, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(scope_groups(graph, {.depth = 2}).group_of_op, ElementsAre(0, 1, 1, 2));
  const Grouping shared = scope_groups(graph, {.share_time_steps = true});
  EXPECT_THAT(shared.group_of_op, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(shared.labels, ElementsAre("dec/l0", "dec/l1", "enc"));
  EXPECT_THAT(scope_groups(graph, {.depth = 1}).labels, ElementsAre("dec", "enc"));
}

TEST(Grouping, StateJoinsItsFirstReaderAndAClassItsLowestOp) {
  std::vector<OpSpec> ops{state("w"), state("v", "elsewhere"), grouped_op("x", "l1", {{0, 0}}),
                          grouped_op("y", "l2", {{1, 0}, {0, 0}})};
  EXPECT_THAT(scope_groups(build(ops)).group_of_op, ElementsAre(0, 1, 0, 1));
  ops[3].colocate = OpId{0};
  EXPECT_THAT(scope_groups(build(ops)).group_of_op, ElementsAre(0, 1, 0, 0));
}

TEST(Grouping, PhasesMayBeKeptApart) {
  std::vector<OpSpec> ops{grouped_op("f", "l"), grouped_op("b", "l", {{0, 0}})};
  ops[1].phase = Phase::kBackward;
  EXPECT_EQ(scope_groups(build(ops)).num_groups, 1u);
  EXPECT_EQ(scope_groups(build(ops), {.split_phases = true}).num_groups, 2u);
}

TEST(Grouping, LightestGroupJoinsTheNeighbourWithMostTraffic) {
  // p sends 100 bytes to q and 5 to r: p, the lightest, joins q.
  const OpGraph graph = build({grouped_op("p1", "p", {}, 100), grouped_op("p2", "p", {}, 5),
                               grouped_op("q", "q", {{0, 0}}), grouped_op("r", "r", {{1, 0}})});
  const Grouping merged = merge_small_groups(graph, scope_groups(graph), {1, 10, 20}, 2);
  EXPECT_THAT(merged.group_of_op, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(merged.labels, ElementsAre("q", "r"));
}

TEST(Grouping, MergingReachesTheRequestedCountWithoutTraffic) {
  const OpGraph graph = build({grouped_op("a", "a"), grouped_op("b", "b"), grouped_op("c", "c")});
  EXPECT_EQ(merge_small_groups(graph, scope_groups(graph), {1, 2, 3}, 1).num_groups, 1u);
  EXPECT_EQ(merge_small_groups(graph, scope_groups(graph), {1, 2, 3}, 9).num_groups, 3u);
}

TEST(Grouping, QuickstartGraphMergesToSixtyFourGroups) {
  const OpGraph graph =
      load_graph(std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs/graphs/nmt-2layer-bs64.json.gz")
          .value();
  const Grouping scopes = scope_groups(graph);
  EXPECT_GT(scopes.num_groups, 400u);
  expect_classes_whole(graph, scopes);
  expect_classes_whole(graph, recursive_colocation_groups(graph));
  const auto weight = sum_by_group(scopes, std::vector<double>(graph.num_ops(), 1.0));
  EXPECT_EQ(std::accumulate(weight.begin(), weight.end(), 0.0), static_cast<double>(graph.num_ops()));
  const Grouping merged = merge_small_groups(graph, scopes, weight, 64);
  EXPECT_EQ(merged.num_groups, 64u);
  expect_classes_whole(graph, merged);
  EXPECT_EQ(merge_small_groups(graph, scopes, weight, 64).group_of_op, merged.group_of_op);
}

// Paper: ColocRL 2017, table 1: 188 groups of RNNLM, 280 of NMT, 83 of Inception-V3. docs/guide/models.md
// explains why ours differ.
TEST(CellGroups, AreCellsLookupsAttentionAndSoftmaxStepsAndBranches) {
  using models::Optimizer;
  const auto groups_of = [](std::string_view model, const models::ModelSizes& sizes) {
    const OpGraph graph = models::made(model, sizes, models::kTensorFlowStep);
    Grouping grouping = cell_groups(graph);
    expect_classes_whole(graph, grouping);
    EXPECT_EQ(grouping.labels.size(), grouping.num_groups);
    // Forward and backward ops of a scope are together, except state, which follows its reader.
    std::map<std::uint32_t, std::set<std::uint32_t>> groups;
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      const OpId op{i};
      if (graph.group(op) != 0 && !graph.is_state(op) && graph.phase(op) != Phase::kUpdate)
        groups[graph.group(op)].insert(grouping.group_of_op[i]);
    }
    for (const auto& [scope, in] : groups) EXPECT_EQ(in.size(), 1u) << graph.group_name(scope);
    return grouping;
  };
  const auto with = [](const Grouping& grouping, std::string_view part) {
    return std::count_if(grouping.labels.begin(), grouping.labels.end(),
                         [&](const std::string& label) { return label.find(part) != std::string::npos; });
  };
  const Grouping rnnlm = groups_of("rnnlm", {.optimizer = Optimizer::kAdam});
  EXPECT_EQ(with(rnnlm, "cells."), 2 * 40);
  EXPECT_EQ(with(rnnlm, "softmax"), 40);
  EXPECT_EQ(with(rnnlm, "embed"), 1);
  EXPECT_EQ(rnnlm.num_groups, 121u);
  const Grouping nmt = groups_of("nmt", {});
  EXPECT_EQ(with(nmt, "encoder/l"), 3 * 40) << "two directions of the first layer";
  EXPECT_EQ(with(nmt, "decoder/"), 2 * 40);
  EXPECT_EQ(with(nmt, "attention"), 40);
  EXPECT_EQ(with(nmt, "softmax"), 40);
  EXPECT_EQ(with(nmt, "embed"), 2);
  EXPECT_EQ(nmt.num_groups, 282u);
  const Grouping inception = groups_of("inception-v3", {});
  EXPECT_EQ(with(inception, "Mixed_5b"), 5) << "four branches and their concatenation";
  EXPECT_EQ(with(inception, "Mixed_7b"), 4 + 4 + 1) << "two of the four branches fork into two";
  EXPECT_EQ(inception.num_groups, 71u);
}

TEST(CellGroups, AreTheSameInBothGranularities) {
  for (const auto& [model, sizes] : models::small_models()) {
    const auto labels = [&](models::Recording recording) {
      const Grouping grouping = cell_groups(models::made(model, sizes, recording));
      return std::set<std::string>(grouping.labels.begin(), grouping.labels.end());
    };
    EXPECT_EQ(labels(models::kTraced), labels(models::kTensorFlowStep)) << model;
  }
}

// Paper: Spotlight 2018, section 5.1: 86 groups of 926 ops (docs/guide/models.md).
TEST(ScopeGroups, TwoLevelsSeparateThePartsOfASplitNetwork) {
  for (const models::Recording recording : {models::kTraced, models::kTensorFlowStep}) {
    const OpGraph graph = models::made("cifar10-cnn", {.split = 2}, recording);
    const Grouping grouping = scope_groups(graph, {.depth = 2});
    expect_classes_whole(graph, grouping);
    for (const Grouping& parts : {grouping, cell_groups(graph)}) {
      const std::set<std::string> labels(parts.labels.begin(), parts.labels.end());
      for (const char* layer : {"conv1", "pool1", "norm1", "conv2", "norm2", "pool2"})
        for (const char* branch : {"/branch0", "/branch1"})
          EXPECT_EQ(labels.count(std::string{layer} + branch), 1u) << layer << branch;
    }
    if (recording.granularity != models::Granularity::kTensorFlow) continue;
    EXPECT_EQ(graph.num_ops(), 270u);
    EXPECT_EQ(grouping.num_groups, 25u);
  }
}

// A block is the first word of a scope with its number: all of "features.denseblock1.…" is one block.
TEST(CellGroups, UnknownScopesUseTheRecursionIfItHasMoreGroups) {
  const auto network = [](const std::string& second) {
    // A result needs two readers, or the recursion joins it to its only reader.
    return build({grouped_op("a", "features.one"), grouped_op("b", second, {{0, 0}}),
                  grouped_op("c", second, {{0, 0}}), grouped_op("d", "features.one", {{1, 0}, {2, 0}}),
                  grouped_op("e", "head", {{0, 0}})});
  };
  const OpGraph unknown = network("features.two");
  const Grouping recursive = recursive_colocation_groups(unknown);
  ASSERT_EQ(recursive.num_groups, 3u);
  EXPECT_EQ(cell_groups(unknown).group_of_op, recursive.group_of_op) << "not four of five ops in one group";
  EXPECT_TRUE(cell_groups(unknown).labels.empty());
  const OpGraph known = network("other");
  EXPECT_THAT(cell_groups(known).labels, ElementsAre("features", "other", "head"));
  for (const char* file : {"vit-tiny", "densenet-tiny", "bert-tiny"}) {
    const OpGraph graph =
        load_graph(std::filesystem::path{EMPLACE_FIXTURES} / "graphs" / (std::string{file} + ".json.gz"))
            .value();
    EXPECT_EQ(cell_groups(graph).num_groups, recursive_colocation_groups(graph).num_groups) << file;
  }
}

TEST(CellGroups, UseTheRecursionWithoutScopes) {
  const OpGraph graph = build({grouped_op("a", ""), grouped_op("b", "", {{0, 0}}), grouped_op("c", "")});
  EXPECT_EQ(cell_groups(graph).group_of_op, recursive_colocation_groups(graph).group_of_op);
}

TEST(Grouping, RandomGraphsKeepTheirClassesWhole) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 80);
    const Grouping marks = colocation_groups(graph), recursive = recursive_colocation_groups(graph);
    expect_classes_whole(graph, marks);
    expect_classes_whole(graph, recursive);
    EXPECT_LE(recursive.num_groups, marks.num_groups);
    const Grouping merged =
        merge_small_groups(graph, recursive, std::vector<double>(recursive.num_groups, 1.0), 3);
    expect_classes_whole(graph, merged);
    EXPECT_LE(merged.num_groups, 3u);
  }
}

}  // namespace
}  // namespace emplace
