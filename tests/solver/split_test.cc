// Goal: contiguous splits are exact, chains of pieces fulfil their definition, and blocks suit both. Method:
// all splits of small random workloads with classes, memory limits, backward nodes, CPUs and nodes for CPUs
// only; the published optima of published workloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "solver/exact/block_graph.h"
#include "solver/exact/chain_split.h"
#include "solver/exact/ideal_split.h"
#include "solver/heuristics.h"
#include "tests/solver/split_world.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainNode;
using testing::PlainWorkload;
using testing::published;
using testing::random_workload;
using testing::ReadWorkload;
using testing::SplitWorld;

constexpr std::int64_t kPsPerMs = 1'000'000'000;
constexpr std::int64_t kNoUpper = std::numeric_limits<std::int64_t>::max();

OpGraph graph_of(const PlainWorkload& workload) { return ReadWorkload{workload, Objective::kLatency}.graph; }

/// Whether the devices are differences of a chain of ideals: no circle of devices that must precede one
/// another because of forward edges, or of backward edges between classes one of which has no forward node.
bool contiguous(const PlainWorkload& workload, const PlainWorkload::Split& split) {
  const auto has_forward = [&](std::size_t v) {
    if (!workload.nodes[v].backward) return true;
    for (const PlainNode& node : workload.nodes)
      if (!node.backward && node.colour >= 0 && node.colour == workload.nodes[v].colour) return true;
    return false;
  };
  const std::size_t k = workload.devices();
  std::vector<std::vector<bool>> before(k, std::vector<bool>(k, false));
  for (const auto& [from, to] : workload.edges) {
    const bool a = workload.nodes[from].backward, b = workload.nodes[to].backward;
    if (!a && !b) before[split[from]][split[to]] = true;
    if (a && b && (!has_forward(from) || !has_forward(to))) before[split[to]][split[from]] = true;
  }
  for (std::size_t m = 0; m < k; ++m)
    for (std::size_t a = 0; a < k; ++a)
      for (std::size_t b = 0; b < k; ++b)
        if (a != m && b != m && before[a][m] && before[m][b]) before[a][b] = true;
  for (std::size_t a = 0; a < k; ++a)
    for (std::size_t b = 0; b < k; ++b)
      if (a != b && before[a][b] && before[b][a]) return false;
  return true;
}

/// Empty if no contiguous split fits.
std::optional<std::int64_t> least_contiguous_load(const PlainWorkload& workload) {
  std::optional<std::int64_t> best;
  for_every_split(workload, [&](const PlainWorkload::Split& split) {
    if (!workload.fits(split) || !contiguous(workload, split)) return;
    best = std::min(best.value_or(kNoUpper), workload.max_load_ms(split));
  });
  return best;
}

TEST(IdealSplit, IsTheBestOfAllContiguousSplits) {
  std::size_t none = 0, on_cpu = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const std::uint32_t accelerators = rng.below(4),
                        cpus = accelerators == 0 ? 1 + rng.below(2) : rng.below(3);
    const PlainWorkload workload =
        random_workload(rng, {.nodes = 2 + rng.below(accelerators + cpus > 3 ? 4 : 6),
                              .accelerators = accelerators,
                              .cpus = cpus,
                              .backward = rng.below(2) == 0,
                              .cpu_only = cpus > 0});
    const auto expected = least_contiguous_load(workload);
    SplitWorld world{graph_of(workload), Objective::kMaxLoad};
    const auto found = contiguous(world.problem(), *world.model);
    if (!expected) {
      ASSERT_FALSE(found.ok()) << workload.json();
      ASSERT_EQ(found.error().code, Errc::kNoPlacement);
      ++none;
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.error().context << workload.json();
    ASSERT_TRUE(found->measurement.valid) << workload.json();
    const auto split = ReadWorkload{workload, Objective::kMaxLoad}.split(found->placement);
    ASSERT_TRUE(workload.allowed(split) && workload.fits(split)) << workload.json();
    ASSERT_TRUE(contiguous(workload, split)) << workload.json();
    ASSERT_EQ(workload.max_load_ms(split), *expected) << workload.json();
    ASSERT_DOUBLE_EQ(found->measurement.step_time_s, static_cast<double>(*expected) * 1e-3);
    ASSERT_EQ(found->notes.at(0), "exact, over co-location classes");
    on_cpu +=
        std::any_of(split.begin(), split.end(), [&](std::size_t d) { return d >= accelerators; }) ? 1 : 0;
  }
  EXPECT_GT(none, 20u);
  EXPECT_GT(on_cpu, 100u);
}

struct Row {
  const char* name;
  double max_load_ms;
};
class PublishedOptima : public ::testing::TestWithParam<Row> {};

/// The published programme's values, or those of another exact programme where it did not end.
TEST_P(PublishedOptima, AreReachedExactly) {
  SplitWorld world{published("throughput/" + std::string{GetParam().name}), Objective::kMaxLoad};
  const auto found = contiguous(world.problem(), *world.model);
  ASSERT_TRUE(found.ok()) << found.error().context;
  EXPECT_TRUE(found->measurement.valid);
  EXPECT_NEAR(found->measurement.step_time_s * 1e3, GetParam().max_load_ms,
              5e-5);  // These are all published digits.
  EXPECT_EQ(found->notes.at(0), "exact, over co-location classes");
  EXPECT_TRUE(world.constraints.check(world.graph, world.devices, found->placement).ok());
}

INSTANTIATE_TEST_SUITE_P(Workloads, PublishedOptima,
                         ::testing::Values(Row{"bert24_inference.json", 17.7899},
                                           Row{"bert24_training.json", 41.7458},
                                           Row{"inceptionv3_inference.json.gz", 51.5519},
                                           Row{"inceptionv3_training.json.gz", 122.7616},
                                           Row{"bert_l-3_inference.json.gz", 27.9186},
                                           Row{"bert_l-3_training.json.gz", 65.3031},
                                           Row{"resnet50_inference.json.gz", 124.3488},
                                           Row{"resnet50_training.json.gz", 255.1944}));

SplitMachine machine_of(const SplitWorld& world) {
  return split_machine(world.problem(), SplitCosts{world.graph, world.devices}).value();
}

BlockGraph blocks_of(const SplitWorld& world, BlockEdges edges) {
  const SplitCosts costs{world.graph, world.devices};
  const Problem problem = world.problem();
  const auto classes = problem.constraints.classes();
  return make_blocks(problem, costs, split_machine(problem, costs).value(), {classes.begin(), classes.end()},
                     edges);
}

TEST(IdealSplit, EndsAtItsLimitsAndOnRequest) {
  PlainWorkload wide{.accelerators = 3, .cpus = 0, .nodes = std::vector<PlainNode>(12)};
  const SplitWorld world{graph_of(wide), Objective::kMaxLoad};
  const BlockGraph graph = blocks_of(world, BlockEdges::kForward);
  const SplitMachine machine = machine_of(world);
  const auto run = [&](IdealLimits limits) { return best_ideal_split(graph, machine, kNoUpper, limits); };
  const auto states = run({.states = 1000});
  ASSERT_FALSE(states.ok());
  EXPECT_EQ(states.error().code, Errc::kUnsupported);
  EXPECT_THAT(states.error().context, HasSubstr("more than 250 order ideals"));
  const auto pieces = run({.steps = 10'000});
  ASSERT_FALSE(pieces.ok());
  EXPECT_THAT(pieces.error().context, HasSubstr("more than 10000 steps"));
  std::size_t polls = 0;
  const auto stopped = run({.stopped = [&] { return ++polls > 0; }});
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, Errc::kUnsupported);
  EXPECT_EQ(run({})->max_load_ps, 4 * kPsPerMs);
}

/// 24 independent nodes have 2^24 ideals: the answer is exact over groups, quick, and noted as such.
TEST(Contiguous, UsesGroupsIfThereAreTooManyClasses) {
  PlainWorkload wide{.accelerators = 2, .cpus = 0, .nodes = std::vector<PlainNode>(24)};
  SplitWorld world{graph_of(wide), Objective::kThroughput};
  const auto found = contiguous(world.problem(), *world.model);
  ASSERT_TRUE(found.ok()) << found.error().context;
  EXPECT_THAT(found->notes.at(0), HasSubstr("exact over 16 groups of ops; finer ones have more than"));
  EXPECT_GE(found->measurement.step_time_s, 12e-3);
  EXPECT_LE(found->measurement.step_time_s, 15e-3);
  Problem problem = world.problem();
  problem.context.stopped = [] { return true; };
  const auto stopped = contiguous(problem, *world.model);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, Errc::kNoPlacement);
}

/// The best of all cuts of `order` into at most one piece per accelerator.
std::int64_t best_cut(const PlainWorkload& workload, const std::vector<std::vector<std::size_t>>& blocks,
                      PlainWorkload::Split split, std::size_t begin, std::size_t device) {
  if (begin == blocks.size()) return workload.fits(split) ? workload.max_load_ms(split) : kNoUpper;
  if (device == workload.accelerators) return kNoUpper;
  std::int64_t best = kNoUpper;
  for (std::size_t end = begin; end < blocks.size(); ++end) {
    for (const std::size_t v : blocks[end]) split[v] = device;
    if (std::any_of(blocks[end].begin(), blocks[end].end(),
                    [&](std::size_t v) { return !workload.nodes[v].on_accelerator; }))
      break;
    best = std::min(best, best_cut(workload, blocks, split, end + 1, device + 1));
  }
  return best;
}

TEST(BestLinearLoad, IsTheBestCutOfItsOrder) {
  std::size_t some = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const PlainWorkload workload =
        random_workload(rng, {.nodes = 2 + rng.below(7), .accelerators = 1 + rng.below(4), .cpus = 1});
    const ReadWorkload read{workload, Objective::kMaxLoad};
    SplitWorld world{graph_of(workload), Objective::kMaxLoad};
    const BlockGraph graph = blocks_of(world, BlockEdges::kAll);
    const auto order = random_order(graph, rng, rng.below(9));
    std::vector<std::vector<std::size_t>> blocks;
    for (const std::uint32_t block : order) {
      blocks.emplace_back();
      for (const std::uint32_t op : graph.ops[block]) blocks.back().push_back(read.id_of_op[op]);
    }
    const std::int64_t expected =
        best_cut(workload, blocks, PlainWorkload::Split(workload.nodes.size(), 0), 0, 0);
    const std::int64_t found = best_linear_load_ps(graph, order, machine_of(world));
    if (expected == kNoUpper) {
      ASSERT_GT(found, kNoUpper / 8) << workload.json();
    } else {
      ASSERT_EQ(found, expected * kPsPerMs) << workload.json();
      ++some;
    }
  }
  EXPECT_GT(some, 50u);
}

TEST(BlockGraph, FusesCirclesAndOrdersEdgesUpwards) {
  // 0 → 1 → 2 with 0 and 2 in one class: 1 must be with them. 3 comes after.
  PlainWorkload workload{.nodes = std::vector<PlainNode>(4), .edges = {{0, 1}, {1, 2}, {2, 3}}};
  workload.nodes[0].colour = workload.nodes[2].colour = 0;
  workload.nodes[2].cost_ms = 7;
  workload.nodes[0].cost_ms = 5;
  const SplitWorld world{graph_of(workload), Objective::kMaxLoad};
  const BlockGraph graph = blocks_of(world, BlockEdges::kAll);
  ASSERT_EQ(graph.size(), 2u);
  EXPECT_THAT(graph.ops[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(graph.after[0], ElementsAre(1));
  EXPECT_THAT(graph.before[1], ElementsAre(0));
  EXPECT_EQ(graph.accelerator_ps[0], 3 * kPsPerMs);
  ASSERT_EQ(graph.all_nets.size(), 1u);  // An edge within a block is no net.
  EXPECT_EQ(graph.all_nets[0].ps, 7 * kPsPerMs);
  EXPECT_THAT(graph.all_nets[0].blocks, ElementsAre(0, 1));

  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const PlainWorkload random =
        random_workload(rng, {.nodes = 2 + rng.below(20), .backward = rng.below(2) == 0});
    const SplitWorld other{graph_of(random), Objective::kMaxLoad};
    for (const BlockEdges edges : {BlockEdges::kAll, BlockEdges::kForward}) {
      const BlockGraph blocks = blocks_of(other, edges);
      std::size_t ops = 0;
      for (std::uint32_t b = 0; b < blocks.size(); ++b) {
        ops += blocks.ops[b].size();
        for (const std::uint32_t next : blocks.after[b]) ASSERT_GT(next, b);
      }
      ASSERT_EQ(ops, random.nodes.size());
      const auto order = random_order(blocks, rng, rng.below(9));
      ASSERT_EQ(order.size(), blocks.size());
      std::vector<std::size_t> place(order.size());
      for (std::size_t at = 0; at < order.size(); ++at) place[order[at]] = at;
      for (std::uint32_t b = 0; b < blocks.size(); ++b)
        for (const std::uint32_t next : blocks.after[b]) ASSERT_GT(place[next], place[b]);
    }
  }
}

TEST(BlockGraph, GroupsWithoutAForwardOpMirrorTheirBackwardPass) {
  // Forward 0 → 1; backward 2 (of 1) → 3 (alone) → 4 (of 0): 3 comes between 0 and 1.
  PlainWorkload workload{.nodes = std::vector<PlainNode>(5), .edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}}};
  workload.nodes[0].colour = workload.nodes[4].colour = 0;
  workload.nodes[1].colour = workload.nodes[2].colour = 1;
  for (const std::size_t v : {2, 3, 4}) workload.nodes[v].backward = true;
  const SplitWorld world{graph_of(workload), Objective::kMaxLoad};
  const BlockGraph graph = blocks_of(world, BlockEdges::kForward);
  ASSERT_EQ(graph.size(), 3u);
  EXPECT_THAT(graph.ops[0], ElementsAre(0, 4));
  EXPECT_THAT(graph.ops[1], ElementsAre(3));
  EXPECT_THAT(graph.ops[2], ElementsAre(1, 2));
  EXPECT_EQ(blocks_of(world, BlockEdges::kAll).size(), 1u);
}

TEST(ChainSplits, AreOptimalOnAChainWithAnAcceleratorForEachPiece) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng{seed, Purpose::kTest};
    PlainWorkload workload = random_workload(rng, {.nodes = 4, .accelerators = 4, .colours = false});
    workload.edges.clear();
    for (std::size_t v = 1; v < workload.nodes.size(); ++v) workload.edges.emplace_back(v - 1, v);
    std::int64_t best_ms = kNoUpper;
    for_every_split(workload, [&](const PlainWorkload::Split& split) {
      if (workload.fits(split)) best_ms = std::min(best_ms, workload.latency_ms(split).value_or(kNoUpper));
    });
    SplitWorld world{graph_of(workload), Objective::kLatency};
    const auto found = contiguous(world.problem(), *world.model);
    ASSERT_TRUE(found.ok()) << found.error().context << workload.json();
    ASSERT_TRUE(found->measurement.valid);
    ASSERT_DOUBLE_EQ(found->measurement.step_time_s, static_cast<double>(best_ms) * 1e-3) << workload.json();
  }
}

TEST(ChainSplits, ObeyClassesMemoryAndNodesForCpusOnly) {
  std::size_t valid = 0, all = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const PlainWorkload workload = random_workload(rng, {.nodes = 3 + rng.below(20), .accelerators = 3});
    const ReadWorkload read{workload, Objective::kLatency};
    const SplitWorld world{graph_of(workload), Objective::kLatency};
    const SplitCosts costs{world.graph, world.devices};
    const Problem problem = world.problem();
    const SplitMachine machine = split_machine(problem, costs).value();
    for (const Placement& placement :
         chain_splits(blocks_of(world, BlockEdges::kAll), machine, problem, rng, 3)) {
      const auto split = read.split(placement);
      ASSERT_TRUE(workload.allowed(split)) << workload.json();
      ASSERT_TRUE(workload.fits(split)) << workload.json();
      valid += workload.latency_ms(split) ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GT(valid, all / 2);  // Packed ranges of one accelerator may wait for one another.
}

TEST(SplitMachine, RefusesAcceleratorsThatDiffer) {
  PlainWorkload workload{.nodes = std::vector<PlainNode>(2)};
  const ReadWorkload read{workload, Objective::kMaxLoad};
  std::vector<Device> devices{read.devices.devices().begin(), read.devices.devices().end()};
  const auto machine = [&] {
    const DeviceSet set = DeviceSet::make(devices, Link{1e9, 0}).value();
    const CostTable costs{read.graph, set};
    const Constraints constraints = Constraints::make(read.graph, set).value();
    const Problem problem{read.graph, set, constraints, costs};
    return split_machine(problem, SplitCosts{read.graph, set});
  };
  EXPECT_TRUE(machine().ok());
  devices[1].memory_bytes += 1;
  const auto uneven = machine();
  ASSERT_FALSE(uneven.ok());
  EXPECT_EQ(uneven.error().code, Errc::kNoPlacement);
  EXPECT_THAT(uneven.error().context, HasSubstr("equal memory"));
}

}  // namespace
}  // namespace emplace
