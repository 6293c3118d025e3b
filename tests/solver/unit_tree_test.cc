// Goal: a tree of units gets the devices of the least cost. Method: every assignment of small trees, with a
// cost computed from the graph.
#include "solver/search/unit_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "solver/search/anneal.h"
#include "solver/search/level.h"
#include "solver/search/search.h"
#include "solver/search/tree_moves.h"
#include "solver/search/walk.h"
#include "tests/solver/world.h"

namespace emplace {
namespace {

/// A walk at a random placement.
struct RandomWalk {
  RandomWalk(std::uint64_t seed, std::uint32_t ops, std::size_t gpus)
      : rng{seed, Purpose::kTest},
        world{testing::random_graph(rng, ops), testing::sample_devices(gpus, true, testing::kPlenty)},
        problem{world.problem(seed)},
        search{problem, 1},
        level{class_level(problem)},
        cost{make_moving_cost(problem, world.simulator)},
        walker{level, search, *cost, 0} {
    Placement start = testing::random_placement(rng, ops, world.devices.size());
    world.constraints.repair(start);
    EXPECT_TRUE(walker.start(start).ok());
  }
  std::uint32_t any_unit() { return rng.below(static_cast<std::uint32_t>(level.size())); }

  Rng rng;
  testing::World world;
  Problem problem;
  Search search;
  Level level;
  std::unique_ptr<MovingCost> cost;
  Walker walker;
};

/// The cost in the comment of UnitTree, op by op.
double cost_of(const RandomWalk& at, const UnitTree& tree, const std::vector<DeviceId>& devices,
               std::span<const double> prices, double weight) {
  const OpGraph& graph = at.world.graph;
  const auto nodes = tree.nodes();
  std::vector<std::uint32_t> unit_of(graph.num_ops());
  std::vector<int> node_of(at.level.size(), -1);
  for (std::uint32_t unit = 0; unit < at.level.size(); ++unit)
    for (const std::uint32_t op : at.level.ops[unit]) unit_of[op] = unit;
  for (std::size_t k = 0; k < nodes.size(); ++k) node_of[nodes[k].unit] = static_cast<int>(k);
  const auto along_tree = [&](int a, int b) {
    return a >= 0 && b >= 0 &&
           (nodes[static_cast<std::size_t>(a)].parent == static_cast<std::uint32_t>(b) ||
            nodes[static_cast<std::size_t>(b)].parent == static_cast<std::uint32_t>(a));
  };
  const auto device = [&](std::uint32_t unit, bool stays) {
    return stays || node_of[unit] < 0 ? at.walker.device_of(unit)
                                      : devices[static_cast<std::size_t>(node_of[unit])];
  };
  double cost = 0;
  std::set<std::pair<std::uint32_t, std::uint32_t>> sent;  // Tensors with the units that read them.
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) {
    const std::uint32_t reader = unit_of[op];
    if (node_of[reader] >= 0)
      cost += prices[index(device(reader, false))] *
              static_cast<double>(at.problem.costs.ns(device(reader, false), OpId{op})) * 1e-9;
    for (const TensorId input : graph.inputs(OpId{op})) {
      const std::uint32_t writer = unit_of[index(graph.producer(input))];
      if (writer == reader || !sent.emplace(static_cast<std::uint32_t>(index(input)), reader).second)
        continue;
      const auto transfer = [&](DeviceId from, DeviceId to) {
        if (from == to) return 0.0;
        const Link& link = at.world.devices.link(from, to);
        return weight * (link.latency_s + static_cast<double>(graph.bytes(input)) / link.bytes_per_s);
      };
      const int from = node_of[writer], to = node_of[reader];
      if (along_tree(from, to)) {
        cost += transfer(device(writer, false), device(reader, false));
      } else {
        // Each end sees the other one on its device.
        if (from >= 0) cost += transfer(device(writer, false), device(reader, true));
        if (to >= 0) cost += transfer(device(writer, true), device(reader, false));
      }
    }
  }
  return cost;
}

TEST(UnitTree, ChoosesTheLeastCostOfAllAssignments) {
  std::size_t inner = 0, changed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RandomWalk at{seed, 40, 3};
    UnitTree tree{at.level, at.problem};
    tree.grow(at.walker, at.any_unit(), 5);
    std::vector<double> prices;
    for (std::size_t d = 0; d < at.world.devices.size(); ++d) prices.push_back(0.2 + at.rng.uniform_double());
    const double weight = 0.2 + at.rng.uniform_double();
    const auto chosen = tree.choose(at.walker.devices(), prices, weight);
    const auto nodes = tree.nodes();
    ASSERT_EQ(chosen.size(), nodes.size());
    const std::vector<DeviceId> found{chosen.begin(), chosen.end()};

    double least = std::numeric_limits<double>::infinity();
    std::vector<DeviceId> devices(nodes.size());
    const auto enumerate = [&](const auto& self, std::size_t k) -> void {
      if (k == nodes.size()) {
        least = std::min(least, cost_of(at, tree, devices, prices, weight));
        return;
      }
      for (const DeviceId device : at.level.allowed[nodes[k].unit]) {
        devices[k] = device;
        self(self, k + 1);
      }
    };
    if (!nodes.empty()) enumerate(enumerate, 0);
    EXPECT_LE(cost_of(at, tree, found, prices, weight), least * (1 + 1e-12)) << "seed " << seed;
    for (std::size_t k = 1; k < nodes.size(); ++k) inner += nodes[k].parent > 0;
    for (std::size_t k = 0; k < nodes.size(); ++k) changed += found[k] != at.walker.device_of(nodes[k].unit);
  }
  EXPECT_GT(inner, 20u);  // Not all trees were stars.
  EXPECT_GT(changed, 40u);
}

TEST(UnitTree, GrowsConnectedWithinItsSizeAndTheWindow) {
  RandomWalk at{3, 200, 3};
  UnitTree tree{at.level, at.problem};
  std::size_t largest = 0;
  for (int k = 0; k < 200; ++k) {
    const bool window = k % 2 == 1;
    const std::uint32_t root = at.any_unit(), place = at.level.place[root];
    at.walker.set_window(window ? place - std::min(place, 10u) : 0,
                         window ? place + 1 : static_cast<std::uint32_t>(at.level.size()));
    tree.grow(at.walker, root, 12);
    const auto nodes = tree.nodes();
    largest = std::max(largest, nodes.size());
    EXPECT_LE(nodes.size(), 12u);
    if (at.level.allowed[root].size() < 2) {
      EXPECT_TRUE(nodes.empty());
      continue;
    }
    ASSERT_FALSE(nodes.empty());
    EXPECT_EQ(nodes[0].unit, root);
    std::set<std::uint32_t> units;
    for (std::size_t at_node = 0; at_node < nodes.size(); ++at_node) {
      const auto [unit, parent] = nodes[at_node];
      EXPECT_TRUE(units.insert(unit).second);
      EXPECT_TRUE(at.walker.in_window(unit));
      EXPECT_GT(at.level.allowed[unit].size(), 1u);
      if (at_node == 0) continue;
      ASSERT_LT(parent, at_node);
      const auto& near = at.level.neighbours[nodes[parent].unit];
      EXPECT_TRUE(std::binary_search(near.begin(), near.end(), unit));
    }
  }
  EXPECT_EQ(largest, 12u);
}

TEST(TreeMoves, SearchIsAFunctionOfItsSeed) {
  testing::World world{testing::random_graph(4, 150), testing::sample_devices(4, true, testing::kPlenty)};
  const Anneal anneal{{.evaluations = 1'500, .moves = tree_moves(world.problem())}};
  const auto first = world.run(anneal), again = world.run(anneal), other = world.run(anneal, 2);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->placement, again->placement);
  EXPECT_NE(first->placement, other->placement);
}

TEST(TreeMoves, OtherObjectivesHaveNoMoves) {
  testing::World world{testing::random_graph(4, 20), testing::sample_devices(2, true, testing::kPlenty)};
  Problem problem = world.problem();
  problem.objective = Objective::kLatency;
  EXPECT_FALSE(tree_moves(problem));
}

}  // namespace
}  // namespace emplace
