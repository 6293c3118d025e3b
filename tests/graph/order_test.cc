// Goal: levels, breadth-first positions, reachability and critical paths are what their definitions say.
// Method: a small graph worked out by hand, and a brute force over random graphs.
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

TEST(Order, AncestorsAndDescendantsLeaveTheOpItselfOut) {
  EXPECT_THAT(ancestors(diamond(), OpId{3}), ElementsAre(true, true, true, false, false, false));
  EXPECT_THAT(descendants(diamond(), OpId{1}), ElementsAre(false, false, false, true, true, false));
  EXPECT_THAT(descendants(diamond(), OpId{5}), ElementsAre(false, false, false, false, false, false));
}

TEST(Order, CriticalPathIsTheHeaviestChain) {
  const std::vector<std::int64_t> ns{1, 10, 20, 1, 5, 26};
  const CriticalPath path = critical_path(diamond(), ns);
  EXPECT_EQ(path.length_ns, 27);
  EXPECT_THAT(path.ops, ElementsAre(OpId{0}, OpId{2}, OpId{3}, OpId{4}));
}

TEST(Order, CriticalPathMayBeOneOpByItself) {
  const std::vector<std::int64_t> ns{1, 1, 1, 1, 1, 100};
  EXPECT_THAT(critical_path(diamond(), ns).ops, ElementsAre(OpId{5}));
}

TEST(Order, RandomGraphsAgreeWithTheirDefinitions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 60);
    const auto level = levels(graph);
    auto position = breadth_first_index(graph);
    std::vector<std::vector<bool>> above;
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) above.push_back(ancestors(graph, OpId{i}));
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      const auto below = descendants(graph, OpId{i});
      EXPECT_FALSE(above[i][i]);
      for (std::uint32_t j = 0; j < graph.num_ops(); ++j) {
        EXPECT_EQ(below[j], above[j][i]);
        EXPECT_TRUE(!below[j] || level[i] < level[j]);
      }
    }
    std::sort(position.begin(), position.end());
    for (std::uint32_t i = 0; i < position.size(); ++i) EXPECT_EQ(position[i], i);
  }
}

}  // namespace
}  // namespace emplace
