// Goal: weights are read whole or refused, the method keeps its promises, and training is a function of its
// recipe. Method: damaged files; tight machines; a training that is stopped and continued.
#include "launcher/pretrained/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/clock.h"
#include "launcher/pretrained/training.h"
#include "launcher/settings/schedule_worlds.h"
#include "launcher/worlds/world.h"
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
TEST(Planner, WalkEstimatesFollowTheSimulator) {
  double agree = 0, pairs = 0;
  for (std::uint32_t number = 0; number < 12; ++number) {
    const auto made = make_world({.seed = 32, .most_ops = 600}, number);
    ASSERT_TRUE(made.ok());
    testing::World world{made->graph, made->devices};
    const LoweredGraph lowered{world.graph};
    const auto worlds = schedule_worlds(world.problem(), lowered);
    const policy::SchedulerPolicy policy;
    std::vector<double> estimated, simulated;
    for (const auto& view : worlds) {
      const auto embedded = policy.network.embed(policy.store, view);
      for (std::size_t head = 0; head < policy.shape.founders; ++head) {
        const auto drawn = policy.network.draw(policy.store, view, embedded, {.head = head}, nullptr);
        Placement placement = view.placement_of(drawn.device_of_unit);
        world.constraints.repair(placement);
        Measurement measured;
        ASSERT_TRUE(world.simulator.measure(placement, measured).ok());
        estimated.push_back(std::log(drawn.estimated_s));
        simulated.push_back(std::log(measured.step_time_s));
        EXPECT_NEAR(estimated.back(), simulated.back(), 0.7) << made->family << " " << number;
      }
    }
    for (std::size_t i = 0; i < simulated.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (std::abs(simulated[i] - simulated[j]) < 0.02) continue;
        ++pairs;
        agree += (estimated[i] < estimated[j]) == (simulated[i] < simulated[j]) ? 1 : 0;
      }
    }
  }
  ASSERT_GT(pairs, 200);
  EXPECT_GT(agree / pairs, 0.95);
}

// Plans of walks alone, at the granularities of the recipe. Families and machines are held out, and the seed
// is not the recipe's.
TEST(Pretrained, ShippedWeightsAreBetterThanUntrainedOnes) {
  const policy::SchedulerPolicy untrained;
  double sum = 0;
  int count = 0;
  for (std::uint32_t number = 0; number < 24; ++number) {
    const auto made = make_world({.seed = 31, .held_out = true}, number);
    ASSERT_TRUE(made.ok());
    if (made->graph.num_ops() > 1500) continue;
    testing::World world{made->graph, made->devices};
    const Problem problem = world.problem();
    const auto worlds = schedule_worlds(problem, LoweredGraph{world.graph});
    Simulator model{world.graph, world.devices};
    Planner before{untrained, problem, worlds, model},
        after{policy::shipped_scheduler(), problem, worlds, model};
    for (Planner* planner : {&before, &after})
      ASSERT_TRUE(planner->plan({.most_walks = 64, .moving_work = 0}).ok());
    if (!before.best().fits() || !after.best().fits()) continue;
    sum += std::log(after.best().step_time_s / before.best().step_time_s);
    ++count;
  }
  ASSERT_GE(count, 10);
  EXPECT_LT(sum / count, -0.005);
}

struct Recipe : TrainRecipe {
  Recipe() {
    worlds = {kGraphs + "unet-tiny.json.gz @ " + kMachines + "placeto-2gpu.toml",
              kGraphs + "vit-tiny.json.gz @ " + kMachines + "placeto-4gpu.toml"};
    search_evaluations = 20;
    imitation_updates = 2;
    evolution_updates = 2;
    worlds_per_update = 2;
    evolution_tries = 2;
    evolution_certainty = 0;
    embedding = code = 6;
    founders = 2;
    improvers = 2;
    rounds = 1;
  }
};

TEST(Training, StoppedAndContinuedGivesTheSameWeights) {
  const testing::ScratchFolder folder{"training"};
  const SystemClock clock;
  const Recipe recipe;
  const fs::path whole = folder.path() / "whole", parts = folder.path() / "parts";
  const auto done =
      train_scheduler(recipe, whole, 2, clock, {[](const std::string&) {}, [] { return false; }});
  ASSERT_TRUE(done.ok() && *done) << (done.ok() ? "" : done.error().context);
  for (int runs = 0;; ++runs) {
    ASSERT_LT(runs, 20);
    bool learning = false;
    const auto ended = train_scheduler(
        recipe, parts, 1, clock,
        {[&](const std::string& line) { learning |= line.starts_with("update"); }, [&] { return learning; }});
    ASSERT_TRUE(ended.ok()) << ended.error().context;
    if (*ended) break;
  }
  EXPECT_EQ(*read_file(whole), *read_file(parts));
}

TEST(Training, RefusesUnusableRecipes) {
  const testing::ScratchFolder folder{"training"};
  const SystemClock clock;
  const TrainEvents quiet{[](const std::string&) {}, [] { return false; }};
  Recipe recipe;
  recipe.imitation_updates = 1;
  recipe.evolution_updates = 0;
  const fs::path output = folder.path() / "weights";
  ASSERT_TRUE(train_scheduler(recipe, output, 1, clock, quiet).ok());
  recipe.seed = 2;
  const auto other = train_scheduler(recipe, output, 1, clock, quiet);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().context.find("belongs to another recipe"), std::string::npos);
  recipe.worlds_per_update = 3;
  EXPECT_FALSE(train_scheduler(recipe, folder.path() / "few", 1, clock, quiet).ok());
  recipe.worlds = {"no/such/graph"};
  EXPECT_FALSE(train_scheduler(recipe, folder.path() / "none", 1, clock, quiet).ok());
  ASSERT_TRUE(write_file(folder.path() / "r.toml", std::string_view{"[train]\nworld = []\n"}).ok());
  const auto unknown = load_recipe(folder.path() / "r.toml");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().context.find("r.toml:2"), std::string::npos) << unknown.error().context;
}

}  // namespace
}  // namespace emplace::launcher
