// Goal: a policy that learns on a graph sees the graph's weights as units, and the granularities that
// recorded episodes refer to keep their positions. Method: a recurrent net with more weights than scopes and
// fewer weights than classes.
#include "launcher/settings/schedule_worlds.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "graph/models/catalogue.h"
#include "solver/partitioners/weight_groups.h"
#include "tests/solver/world.h"

namespace emplace::launcher {
namespace {

OpGraph recurrent() {
  const models::ModelSizes sizes{.batch = 16, .steps = 10, .hidden = 256};
  return models::model_graph(*models::find_model("rnnlm"), sizes, {}).value();
}

TEST(PlanningWorlds, StartWithTheWeightsIfADeviceIsTooSmallForTheGraph) {
  const auto worlds_of = [](std::int64_t memory, const auto& make) {
    emplace::testing::World world{recurrent(), emplace::testing::sample_devices(2, true, memory)};
    return make(world.problem(), LoweredGraph{world.graph});
  };
  const auto plain = worlds_of(emplace::testing::kPlenty, schedule_worlds);
  const auto whole = static_cast<std::int64_t>(plain.back().peak_bytes());
  EXPECT_EQ(worlds_of(whole + 1, planning_worlds).size(), plain.size());
  const auto tight = worlds_of(whole - 1, planning_worlds);
  const auto learning = worlds_of(whole - 1, learning_worlds);
  ASSERT_EQ(tight.size(), plain.size() + 1);
  EXPECT_EQ(tight.front().num_choices(), learning.back().num_choices());
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_EQ(tight[i + 1].num_choices(), plain[i].num_choices());
}

TEST(LearningWorlds, EndWithTheWeightsUnlessTheyAreFewest) {
  emplace::testing::World world{recurrent(),
                                emplace::testing::sample_devices(2, true, emplace::testing::kPlenty)};
  const Problem problem = world.problem();
  const LoweredGraph lowered{world.graph};
  const auto plain = schedule_worlds(problem, lowered), learning = learning_worlds(problem, lowered);
  ASSERT_EQ(learning.size(), plain.size() + 1);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(learning[i].num_choices(), plain[i].num_choices());
  const std::size_t weights = learning.back().num_choices();
  EXPECT_GT(weights, plain.front().num_choices());
  EXPECT_LT(weights, plain.back().num_choices());
  // All ops of a group are on one device.
  const Grouping groups = weight_groups(problem);
  std::vector<std::uint8_t> device_of_unit(learning.back().num_units());
  for (std::size_t unit = 0; unit < device_of_unit.size(); ++unit)
    device_of_unit[unit] = static_cast<std::uint8_t>(unit % 3);
  const Placement placement = learning.back().placement_of(device_of_unit);
  std::vector<std::set<DeviceId>> used(groups.num_groups);
  for (std::size_t op = 0; op < placement.size(); ++op) used[groups.group_of_op[op]].insert(placement[op]);
  for (std::size_t group = 0; group < used.size(); ++group)
    EXPECT_EQ(used[group].size(), 1u) << groups.labels[group];
}

}  // namespace
}  // namespace emplace::launcher
