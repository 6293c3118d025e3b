// Goal: levels, breadth-first positions, reachability and critical paths follow their definitions; a
// renumbered graph is the same graph; invalid orders are refused. Method: a small graph computed by hand, and
// brute force over random graphs.
#include "graph/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

/// a → b → d → e, a → c → d, and f alone.
OpGraph diamond() {
  return testing::sample_graph({{"a", {}},
                                {"b", {{0, 0}}},
                                {"c", {{0, 0}}},
                                {"d", {{1, 0}, {2, 0}, {1, 0}}},
                                {"e", {{3, 0}}},
                                {"f", {}}});
}

TEST(Order, LevelIsTheLongestDistanceFromASource) {
  EXPECT_THAT(levels(diamond()), ElementsAre(0, 1, 1, 2, 3, 0));
}

TEST(Order, BreadthFirstStartsAtAllSourcesAtOnce) {
  EXPECT_THAT(breadth_first_index(diamond()), ElementsAre(0, 2, 3, 4, 5, 1));
}

TEST(Order, RefusesInvalidOrdersAndNamesTheOp) {
  const OpGraph graph = diamond();
  const auto refusal = [&](std::vector<std::uint32_t> ids) {
    OpOrder order;
    for (const std::uint32_t id : ids) order.push_back(OpId{id});
    const auto checked = check_order(graph, order);
    return checked ? std::string{} : checked.error().context;
  };
  EXPECT_EQ(refusal({5, 0, 2, 1, 3, 4}), "");
  EXPECT_THAT(refusal({0, 1, 2, 3, 4}), ::testing::HasSubstr("has 5 ops, the graph has 6"));
  EXPECT_THAT(refusal({0, 1, 2, 3, 4, 4}), ::testing::HasSubstr("op 'e' is repeated"));
  EXPECT_THAT(refusal({0, 1, 2, 3, 4, 6}), ::testing::HasSubstr("op 6, which does not exist"));
  EXPECT_THAT(refusal({0, 1, 3, 2, 4, 5}), ::testing::HasSubstr("op 'd' comes before its input op 'c'"));
}

TEST(Order, RenumberedGraphIsTheSameGraph) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 40);
    const OpOrder order = testing::random_order(rng, graph);
    ASSERT_TRUE(check_order(graph, order).ok());
    const OpGraph other = renumbered(graph, order);
    EXPECT_TRUE(other.ids_are_topological());
    ASSERT_EQ(other.num_ops(), graph.num_ops());
    EXPECT_EQ(other.num_edges(), graph.num_edges());
    const auto position = positions(order);
    for (std::uint32_t k = 0; k < order.size(); ++k) {
      const OpId here{k}, there = order[k];
      ASSERT_EQ(position[index(there)], k);
      EXPECT_EQ(other.name(here), graph.name(there));
      EXPECT_EQ(other.type_name(here), graph.type_name(there));
      EXPECT_EQ(other.phase(here), graph.phase(there));
      EXPECT_EQ(other.is_view(here), graph.is_view(there));
      EXPECT_EQ(other.group_name(here), graph.group_name(there));
      ASSERT_EQ(other.colocated_with(here) == kNoOp, graph.colocated_with(there) == kNoOp);
      if (other.colocated_with(here) != kNoOp) {
        EXPECT_EQ(order[index(other.colocated_with(here))], graph.colocated_with(there));
      }
      ASSERT_EQ(other.num_outputs(here), graph.num_outputs(there));
      for (std::size_t out = 0; out < graph.num_outputs(there); ++out)
        EXPECT_EQ(other.bytes(other.output(here, out)), graph.bytes(graph.output(there, out)));
      ASSERT_EQ(other.inputs(here).size(), graph.inputs(there).size());
      for (std::size_t in = 0; in < graph.inputs(there).size(); ++in) {
        const TensorId mine = other.inputs(here)[in], its = graph.inputs(there)[in];
        EXPECT_EQ(order[index(other.producer(mine))], graph.producer(its));
        EXPECT_EQ(index(mine) - index(other.first_output(other.producer(mine))),
                  index(its) - index(graph.first_output(graph.producer(its))));
      }
      for (std::size_t c = 0; c < graph.measured_classes().size(); ++c) {
        const auto same = std::find(other.measured_classes().begin(), other.measured_classes().end(),
                                    graph.measured_classes()[c]);
        ASSERT_NE(same, other.measured_classes().end());
        EXPECT_EQ(other.measured_us(here, static_cast<std::size_t>(same - other.measured_classes().begin())),
                  graph.measured_us(there, c));
      }
    }
  }
}

TEST(Order, CriticalPathIsTheHeaviestChain) {
  const std::vector<std::int64_t> ns{1, 10, 20, 1, 5, 26};
  const CriticalPath path = critical_path(diamond(), ns);
  EXPECT_EQ(path.length_ns, 27);
  EXPECT_THAT(path.ops, ElementsAre(OpId{0}, OpId{2}, OpId{3}, OpId{4}));
}

TEST(Order, CriticalPathMayBeASingleOp) {
  const std::vector<std::int64_t> ns{1, 1, 1, 1, 1, 100};
  EXPECT_THAT(critical_path(diamond(), ns).ops, ElementsAre(OpId{5}));
}

TEST(Order, RandomGraphsAgreeWithTheirDefinitions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 60);
    const auto level = levels(graph);
    auto position = breadth_first_index(graph);
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
      for (const TensorId input : graph.inputs(OpId{i}))
        EXPECT_LT(level[index(graph.producer(input))], level[i]);
    std::sort(position.begin(), position.end());
    for (std::uint32_t i = 0; i < position.size(); ++i) EXPECT_EQ(position[i], i);
  }
}

}  // namespace
}  // namespace emplace
