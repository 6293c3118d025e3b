// Goal: guided moves follow the policy, treat interchangeable devices alike, and are a function of the seed.
// Method: placements that the policy made, random graphs, and the same search with and without a guide.
#include "launcher/pretrained/guided_moves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "launcher/pretrained/pretrained.h"
#include "solver/search/anneal.h"
#include "solver/search/tree_moves.h"
#include "solver/search/walk.h"
#include "tests/solver/world.h"

namespace emplace::launcher {
namespace {

testing::World some_world(std::uint64_t seed) {
  return testing::World{testing::random_graph(seed, 150), testing::sample_devices(4, true, testing::kPlenty)};
}

TEST(GuidedMoves, ProbabilitiesAreThoseOfOpenDevices) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    testing::World world = some_world(seed);
    const PlacementCritic critic{policy::shipped_scheduler(), world.problem()};
    const Placement placement = world.run(Pretrained{policy::shipped_scheduler()})->placement;
    const auto found = critic.probabilities(placement);
    const std::size_t devices = world.devices.size();
    std::size_t choices = 0;
    for (std::size_t at = 0; at < found.size(); at += devices) {
      const std::span row{found.data() + at, devices};
      const float sum = std::accumulate(row.begin(), row.end(), 0.0f);
      if (sum == 0) continue;
      EXPECT_NEAR(sum, 1, 1e-4) << "seed " << seed << ", unit " << at / devices;
      ++choices;
    }
    EXPECT_GT(choices, 10u) << "seed " << seed;
  }
}

TEST(GuidedMoves, InterchangeableDevicesGetTheSameProbabilities) {
  testing::World world = some_world(3);
  const PlacementCritic critic{policy::shipped_scheduler(), world.problem()};
  // Without moves, all ops of a unit share a device.
  Placement placement = world.run(Pretrained{policy::shipped_scheduler(), 0, {.moving_work = 0}})->placement;
  const auto gpus = devices_of_kind(world.devices, "gpu");
  ASSERT_GE(gpus.size(), 2u);
  Placement swapped = placement;
  for (DeviceId& device : swapped) {
    if (device == gpus[0]) {
      device = gpus[1];
    } else if (device == gpus[1]) {
      device = gpus[0];
    }
  }
  ASSERT_NE(swapped, placement);
  auto here = critic.probabilities(placement), there = critic.probabilities(swapped);
  ASSERT_EQ(here.size(), there.size());
  const std::size_t devices = world.devices.size();
  std::size_t used = 0;
  for (std::size_t at = 0; at < here.size(); at += devices) {
    // Unused interchangeable devices are one choice, which stands for the one that is used first.
    for (const std::size_t gpu : {index(gpus[0]), index(gpus[1])}) {
      const std::size_t other = gpu == index(gpus[0]) ? index(gpus[1]) : index(gpus[0]);
      EXPECT_EQ(here[at + gpu], there[at + other]) << "unit " << at / devices;
      used += here[at + gpu] > 0;
    }
  }
  EXPECT_GT(used, 10u);
}

TEST(GuidedMoves, SearchIsAFunctionOfItsSeed) {
  testing::World world = some_world(4);
  const Problem problem = world.problem();
  const MoveProposerFactory moves = guided_moves(problem);
  ASSERT_TRUE(moves);
  const Anneal guided{{.evaluations = 1'500, .moves = moves}}, random{{.evaluations = 1'500}};
  const auto first = world.run(guided), again = world.run(guided), other = world.run(random);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->placement, again->placement);
  EXPECT_EQ(first->evaluations, again->evaluations);
  EXPECT_NE(first->placement, other->placement);
}

TEST(GuidedMoves, OtherObjectivesHaveNoGuide) {
  testing::World world = some_world(4);
  Problem problem = world.problem();
  problem.objective = Objective::kLatency;
  EXPECT_FALSE(guided_moves(problem));
}

}  // namespace
}  // namespace emplace::launcher
