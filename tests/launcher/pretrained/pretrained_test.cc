// Goal: weights are read whole or refused, the method keeps its promises, and training is a function of its
// recipe. Method: damaged files; tight machines; a training that is stopped and continued.
#include "launcher/pretrained/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/clock.h"
#include "launcher/settings/schedule_worlds.h"
#include "solver/methods.h"
#include "solver/partitioners/placing_units.h"
#include "solver/portfolio/portfolio.h"
#include "tests/solver/world.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

const std::string kGraphs = std::string{EMPLACE_SOURCE_DIR} + "/tests/fixtures/graphs/";
const std::string kMachines = std::string{EMPLACE_SOURCE_DIR} + "/configs/devices/";

TEST(Pretrained, WeightsRoundTrip) {
  policy::SchedulerPolicy policy{{.embedding = 4, .code = 3, .rounds = 1}, 7};
  policy.version = 5;
  const auto parsed = policy::parse_scheduler(policy.bytes(), "a file");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->bytes(), policy.bytes());
  EXPECT_EQ(parsed->name(), policy.name());
}

TEST(Pretrained, RefusesDamagedWeights) {
  const Bytes good = policy::SchedulerPolicy{{.embedding = 4, .code = 3, .rounds = 1}, 7}.bytes();
  for (std::size_t at = 0; at < good.size(); at += 7) {
    Bytes damaged = good;
    damaged[at] ^= std::byte{1};
    // The version is not part of the hash.
    if (at == std::string{"emplace scheduler "}.size()) continue;
    const auto parsed = policy::parse_scheduler(damaged, "a file");
    ASSERT_FALSE(parsed.ok()) << "byte " << at;
    EXPECT_TRUE(parsed.error().context.starts_with("a file: ")) << parsed.error().context;
    EXPECT_EQ(parsed.error().context.find('\n'), std::string::npos);
  }
  for (std::size_t size = 0; size < good.size(); size += 5)
    EXPECT_FALSE(policy::parse_scheduler(std::span{good}.first(size), "a file").ok()) << size << " bytes";
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(policy::parse_scheduler(longer, "a file").ok());
}

TEST(Pretrained, RefusesWeightsOfAnotherVersionOfThePolicy) {
  const std::string old =
      "emplace scheduler 1 32 32 3 " + std::string(64, 'a') + "\n" + std::string(32, '\0');
  const auto parsed = policy::parse_scheduler(std::as_bytes(std::span{old}), "a file");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().context.find("another version of emplace train"), std::string::npos)
      << parsed.error().context;
  EXPECT_EQ(parsed.error().context.find('\n'), std::string::npos);
}

TEST(Pretrained, IsAmongTheFirstMethodsOfAuto) {
  testing::World world{testing::random_graph(3, 120), testing::sample_devices(4, true, testing::kPlenty)};
  std::vector<std::string> started;
  const SystemClock clock;
  Problem problem = world.problem();
  problem.context = testing::budget(clock, 60);
  problem.context.searches = false;
  problem.context.on_method_start = [&](const std::string& method, bool) { started.push_back(method); };
  const auto answer =
      run_portfolio(portfolio_methods(), problem, Judge{Objective::kStepTime, {}}, world.simulator);
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  EXPECT_EQ(started.size(), all_methods().size() + 1);
  const auto place = std::find(started.begin(), started.end(), "pretrained");
  ASSERT_NE(place, started.end());
  EXPECT_LT(place, std::find(started.begin(), started.end(), "m-etf"));
  // Its placement counts like that of any other method.
  const auto alone = world.run(Pretrained{policy::shipped_scheduler(), 0, kPortfolioPlan});
  ASSERT_TRUE(alone.ok());
  EXPECT_LE(answer->measurement.step_time_s, alone->measurement.step_time_s);
}

TEST(Pretrained, IsDeterministicAndMoreSamplesNeverHurt) {
  testing::World world{testing::random_graph(3, 120), testing::sample_devices(4, true, testing::kPlenty)};
  const Pretrained one{policy::shipped_scheduler()}, many{policy::shipped_scheduler(), 16};
  const auto first = world.run(one), again = world.run(one), sampled = world.run(many);
  ASSERT_TRUE(first.ok() && again.ok() && sampled.ok());
  EXPECT_EQ(first->placement, again->placement);
  EXPECT_EQ(sampled->placement, world.run(many)->placement);
  EXPECT_LE(sampled->measurement.step_time_s, first->measurement.step_time_s);
  EXPECT_EQ(first->evaluations, 1u);
  EXPECT_EQ(sampled->evaluations, 17u);
  ASSERT_EQ(first->notes.size(), 1u);
  EXPECT_EQ(first->notes[0], "policy " + policy::shipped_scheduler().name());
}

TEST(Pretrained, FitsOnTightMachines) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    // Each GPU has half the memory that one device would need.
    testing::World loose{testing::random_graph(seed, 150),
                         testing::sample_devices(1, false, testing::kPlenty)};
    const auto alone = loose.run(Pretrained{policy::shipped_scheduler()});
    ASSERT_TRUE(alone.ok() && alone->measurement.valid);
    const std::int64_t peak = alone->measurement.peak_bytes[0];
    testing::World tight{testing::random_graph(seed, 150), testing::sample_devices(4, true, peak / 2)};
    const auto found = tight.run(Pretrained{policy::shipped_scheduler()});
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->measurement.valid) << "seed " << seed;
    EXPECT_TRUE(tight.constraints.check(tight.graph, tight.devices, found->placement).ok());
  }
}

TEST(Planner, IsAFunctionOfTheBudgetAndNeverWorseThanItsFirstWalk) {
  int moves_helped = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    testing::World world{testing::random_graph(seed, 150),
                         testing::sample_devices(4, true, testing::kPlenty)};
    const LoweredGraph lowered{world.graph};
    const Problem problem = world.problem();
    const auto worlds = schedule_worlds(problem, lowered);
    double first = 0;
    for (const std::uint64_t most : {1, 5, 40, 160}) {
      Planner planner{policy::shipped_scheduler(), problem, worlds, world.simulator},
          moved{policy::shipped_scheduler(), problem, worlds, world.simulator},
          again{policy::shipped_scheduler(), problem, worlds, world.simulator};
      ASSERT_TRUE(planner.plan({.most_walks = most, .moving_work = 0}).ok());
      const PlanBudget budget{.most_walks = most, .most_moves = 500};
      ASSERT_TRUE(moved.plan(budget).ok() && again.plan(budget).ok());
      EXPECT_EQ(moved.best().placement, again.best().placement);
      EXPECT_LE(moved.best().step_time_s, planner.best().step_time_s);
      moves_helped += moved.best().step_time_s < planner.best().step_time_s;
      EXPECT_GE(planner.walks(), 1u);
      EXPECT_LE(planner.walks(), most);
      Measurement measured;
      ASSERT_TRUE(world.simulator.measure(planner.best().placement, measured).ok());
      EXPECT_EQ(measured.step_time_s, planner.best().step_time_s);
      EXPECT_EQ(measured.valid, planner.best().fits());
      ASSERT_TRUE(planner.best().fits());
      if (most == 1) first = planner.best().step_time_s;
      EXPECT_LE(planner.best().step_time_s, first);
    }
  }
  EXPECT_GE(moves_helped, 18);  // The loops above make 24 plans.
}

// The memory that walks see is exact if all units share a device: no peak is between two moments.
TEST(Planner, MomentsOfUnitsContainThePeakOfOneDevice) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    testing::World world{testing::random_graph(seed, 400),
                         testing::sample_devices(1, false, testing::kPlenty)};
    const LoweredGraph lowered{world.graph};
    const PlacingUnits units = units_with_state(class_units(world.problem(), lowered), lowered);
    std::int64_t most = 0;
    for (std::size_t m = 0; m < PlacingUnits::kMoments; ++m) {
      std::int64_t sum = 0;
      for (std::size_t unit = 0; unit < units.size(); ++unit)
        sum += units.live_bytes[unit * PlacingUnits::kMoments + m];
      most = std::max(most, sum);
    }
    Measurement measured;
    const Placement placement(world.graph.num_ops(), DeviceId{0});
    ASSERT_TRUE(world.simulator.measure(placement, measured).ok());
    EXPECT_EQ(most, measured.peak_bytes[0]) << "seed " << seed;
  }
}

// The estimates of walks rank placements as the simulator does.
}  // namespace
}  // namespace emplace::launcher
