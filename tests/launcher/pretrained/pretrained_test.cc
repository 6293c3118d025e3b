// Goal: weights are read whole or refused, the method keeps its promises, and training is a function of its
// recipe. Method: damaged files; tight machines; a training that is stopped and continued.
#include "launcher/pretrained/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/clock.h"
#include "heuristics/portfolio.h"
#include "launcher/pretrained/training.h"
#include "launcher/worlds/world.h"
#include "tests/heuristics/world.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

const std::string kGraphs = std::string{EMPLACE_SOURCE_DIR} + "/tests/fixtures/graphs/";
const std::string kMachines = std::string{EMPLACE_SOURCE_DIR} + "/configs/devices/";

TEST(Pretrained, WeightsComeBackAsTheyWere) {
  SchedulerPolicy policy{{.embedding = 4, .hidden = 3, .rounds = 1}, 7};
  policy.version = 5;
  const auto parsed = parse_scheduler(policy.bytes(), "a file");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->bytes(), policy.bytes());
  EXPECT_EQ(parsed->name(), policy.name());
}

TEST(Pretrained, RefusesDamagedWeights) {
  const Bytes good = SchedulerPolicy{{.embedding = 4, .hidden = 3, .rounds = 1}, 7}.bytes();
  for (std::size_t at = 0; at < good.size(); at += 7) {
    Bytes damaged = good;
    damaged[at] ^= std::byte{1};
    // The version is not part of the hash.
    if (at == std::string{"emplace scheduler "}.size()) continue;
    const auto parsed = parse_scheduler(damaged, "a file");
    ASSERT_FALSE(parsed.ok()) << "byte " << at;
    EXPECT_TRUE(parsed.error().context.starts_with("a file: ")) << parsed.error().context;
    EXPECT_EQ(parsed.error().context.find('\n'), std::string::npos);
  }
  for (std::size_t size = 0; size < good.size(); size += 5)
    EXPECT_FALSE(parse_scheduler(std::span{good}.first(size), "a file").ok()) << size << " bytes";
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_scheduler(longer, "a file").ok());
}

TEST(Pretrained, IsAmongTheFirstMethodsOfAuto) {
  testing::World world{testing::random_graph(3, 120), testing::sample_devices(4, true, testing::kPlenty)};
  std::vector<std::string> begun;
  PortfolioOptions options{.budget_s = 60, .searches = false};
  options.on_method_start = [&](const std::string& method) { begun.push_back(method); };
  const SystemClock clock;
  const auto answer = run_portfolio(portfolio_methods(), world.problem(), Judge{Objective::kStepTime, {}},
                                    world.simulator, clock, options);
  ASSERT_TRUE(answer.ok()) << answer.error().context;
  EXPECT_EQ(begun.size(), all_methods().size() + 1);
  const auto place = std::find(begun.begin(), begun.end(), "pretrained");
  ASSERT_NE(place, begun.end());
  EXPECT_LT(place, std::find(begun.begin(), begun.end(), "m-etf"));
  // Its placement was an offer like any other.
  const auto alone = world.run(Pretrained{shipped_scheduler()});
  ASSERT_TRUE(alone.ok());
  EXPECT_LE(answer->found.measurement.step_time_s, alone->measurement.step_time_s);
}

TEST(Pretrained, IsDeterministicAndSamplesOnlyImprove) {
  testing::World world{testing::random_graph(3, 120), testing::sample_devices(4, true, testing::kPlenty)};
  const Pretrained one{shipped_scheduler()}, many{shipped_scheduler(), 16};
  const auto first = world.run(one), again = world.run(one), sampled = world.run(many);
  ASSERT_TRUE(first.ok() && again.ok() && sampled.ok());
  EXPECT_EQ(first->placement, again->placement);
  EXPECT_EQ(sampled->placement, world.run(many)->placement);
  EXPECT_LE(sampled->measurement.step_time_s, first->measurement.step_time_s);
  EXPECT_EQ(sampled->evaluations, first->evaluations + 16);
  ASSERT_EQ(first->notes.size(), 1u);
  EXPECT_EQ(first->notes[0], "policy " + shipped_scheduler().name());
}

TEST(Pretrained, FitsOnTightMachines) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    // Half as much again as a share of what one device would need.
    testing::World loose{testing::random_graph(seed, 150),
                         testing::sample_devices(1, false, testing::kPlenty)};
    const auto alone = loose.run(Pretrained{shipped_scheduler()});
    ASSERT_TRUE(alone.ok() && alone->measurement.valid);
    const std::int64_t peak = alone->measurement.peak_bytes[0];
    testing::World tight{testing::random_graph(seed, 150), testing::sample_devices(4, true, peak / 2)};
    const auto found = tight.run(Pretrained{shipped_scheduler()});
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->measurement.valid) << "seed " << seed;
    EXPECT_TRUE(tight.constraints.check(tight.graph, tight.devices, found->placement).ok());
  }
}

// On unseen families and machines of another seed than the recipe's.
TEST(Pretrained, ShippedWeightsAreBetterThanUntrainedOnes) {
  const SchedulerPolicy untrained;
  double sum = 0;
  int count = 0;
  for (std::uint32_t number = 0; number < 24; ++number) {
    const auto made = make_world({.seed = 31, .held_out = true}, number);
    ASSERT_TRUE(made.ok());
    if (made->graph.num_ops() > 1500) continue;
    testing::World world{made->graph, made->devices};
    const auto before = world.run(Pretrained{untrained}), after = world.run(Pretrained{shipped_scheduler()});
    ASSERT_TRUE(before.ok() && after.ok());
    if (!before->measurement.valid || !after->measurement.valid) continue;
    sum += std::log(after->measurement.step_time_s / before->measurement.step_time_s);
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
    updates = 6;
    worlds_per_update = 2;
    samples = 4;
    evolution_pairs = 2;
    embedding = hidden = 6;
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

TEST(Training, RefusesWhatItCannotUse) {
  const testing::ScratchFolder folder{"training"};
  const SystemClock clock;
  const TrainEvents quiet{[](const std::string&) {}, [] { return false; }};
  Recipe recipe;
  recipe.updates = 1;
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
