// Goal: training is a function of its recipe, and what it made holds on worlds that it has not seen.
// Method: a training that is stopped and continued; the shipped policy and its guided moves against untrained
// weights and random moves, on held-out worlds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "lab/pretrained/training.h"
#include "lab/worlds/world.h"
#include "launcher/pretrained/guided_moves.h"
#include "launcher/pretrained/pretrained.h"
#include "launcher/settings/schedule_worlds.h"
#include "solver/search/anneal.h"
#include "solver/search/tree_moves.h"
#include "tests/solver/world.h"
#include "tests/support/scratch_folder.h"

namespace emplace::lab {
namespace {

namespace fs = std::filesystem;
using launcher::guided_moves;
using launcher::Planner;
using launcher::schedule_worlds;

const std::string kGraphs = std::string{EMPLACE_SOURCE_DIR} + "/tests/fixtures/graphs/";
const std::string kMachines = std::string{EMPLACE_SOURCE_DIR} + "/configs/devices/";

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

/// Compares annealing with both kinds of move against random moves with twice the evaluations.
TEST(GuidedMoves, AndTreeMovesFindMoreInHalfTheEvaluations) {
  double log_guided = 0, log_trees = 0;
  int worlds = 0;
  for (std::uint32_t number = 0; worlds < 10; ++number) {
    const auto made = make_world({.seed = 29, .held_out = true, .most_ops = 2'000}, number);
    ASSERT_TRUE(made.ok()) << made.error().context;
    testing::World world{made->graph, made->devices};
    const auto log_step = [&](MoveProposerFactory moves, std::uint64_t evaluations) {
      const auto found = world.run(Anneal{{.evaluations = evaluations, .moves = std::move(moves)}});
      return found.ok() && found->measurement.valid ? std::log(found->measurement.step_time_s) : HUGE_VAL;
    };
    const double random = log_step({}, 2'000);
    if (!std::isfinite(random)) continue;
    log_guided += log_step(guided_moves(world.problem()), 1'000) - random;
    log_trees += log_step(tree_moves(world.problem()), 1'000) - random;
    ++worlds;
  }
  EXPECT_LT(log_guided, 0);
  EXPECT_LT(log_trees, 0);
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
}  // namespace emplace::lab
