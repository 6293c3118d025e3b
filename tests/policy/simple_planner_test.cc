// Goal: the Simple Planner draws each op's device independently, obeys the constraints, and ascends its
// objective. Method: finite differences of its loss; counts of its draws; bad inputs by hand.
#include "policy/placers/simple_planner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "policy/training/trainer.h"
#include "tests/policy/differences.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {
namespace {

struct PlannerWorld : testing::SampleTask {
  PlannerWorld() : SampleTask{testing::random_graph(3, 24), testing::sample_devices(2, true, 1 << 30)} {}
  std::unique_ptr<SimplePlanner> planner(SimplePlannerOptions options, std::uint64_t seed = 1,
                                         const Placement& start = {}) const {
    return *SimplePlanner::make(graph, devices, constraints, options, start, seed);
  }
};

SimplePlannerOptions small_planner() {
  SimplePlannerOptions options;
  options.type_embedding = 3;
  options.hidden = 6;
  options.placements = 3;
  return options;
}

TEST(SimplePlanner, SamplesAreValidAndObeyTheConstraints) {
  const PlannerWorld world;
  const auto planner = world.planner(small_planner());
  EXPECT_EQ(planner->sample(7, 0).bytes, world.planner(small_planner())->sample(7, 0).bytes);
  EXPECT_NE(planner->sample(7, 0).bytes, planner->sample(8, 0).bytes);
  EXPECT_NE(planner->sample(7, 0).bytes, world.planner(small_planner(), 2)->sample(7, 0).bytes);
  const auto placements = *planner->expand(planner->sample(0, 0));
  ASSERT_EQ(placements.size(), 3u);
  EXPECT_NE(placements[0], placements[1]);
  for (const Placement& placement : placements)
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placement).ok());
  EXPECT_TRUE(world.constraints.check(world.graph, world.devices, planner->greedy()).ok());
}

TEST(SimplePlanner, GradientIsThatOfAdvantageTimesLogProbabilityLessEntropy) {
  const PlannerWorld world;
  SimplePlannerOptions options = small_planner();
  options.entropy = 0.2f;
  const auto planner = world.planner(options);
  const std::vector<ScoredEpisode> batch{{planner->sample(0, 0), {0.5f, -1.0f, 0.25f}},
                                         {planner->sample(1, 0), {1.0f, 2.0f, -0.5f}}};
  ParameterStore& store = planner->parameters();
  const auto loss = [&] { return planner->accumulate_gradient(batch)->loss; };
  store.clear_gradients();
  const LossParts parts = *planner->accumulate_gradient(batch);
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  constexpr float kStep = 4e-3f;
  float largest = 0;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const auto numeric = static_cast<float>(central_difference(loss, store.values()[i], kStep));
    EXPECT_NEAR(analytic[i], numeric, 2e-2f * std::max(0.5f, std::abs(numeric))) << "parameter " << i;
    largest = std::max(largest, std::abs(numeric));
  }
  EXPECT_GT(largest, 0.05f);
  EXPECT_GT(parts.entropy, 0.5);
  EXPECT_LT(parts.entropy, std::log(3.0) + 1e-6);
  EXPECT_LT(parts.log_probability, -5);
}

TEST(SimplePlanner, StartsAtAPlacementAndLearnsToRepeatAnother) {
  const PlannerWorld world;
  const Placement start(world.graph.num_ops(), DeviceId{1});
  SimplePlannerOptions options = small_planner();
  options.start_logit = 8;
  EXPECT_EQ(world.planner(options, 1, start)->greedy(), start);
  // The features of the ops distinguish only the sources from the rest.
  Placement wanted;
  for (std::uint32_t op = 0; op < world.graph.num_ops(); ++op)
    wanted.push_back(world.graph.inputs(OpId{op}).empty() ? DeviceId{0} : DeviceId{2});
  world.constraints.repair(wanted);
  options = small_planner();
  options.hidden = 64;
  const auto planner = world.planner(options);
  const auto reached = imitate(*planner, {.placement = wanted, .probability = 0.9, .learning_rate = 0.02f});
  ASSERT_TRUE(reached.ok());
  EXPECT_GE(*reached, 0.9);
  EXPECT_EQ(planner->greedy(), wanted);
}

TEST(SimplePlanner, RefusesActionsOfOthersAndImpossibleNumbers) {
  const PlannerWorld world;
  const auto planner = world.planner(small_planner());
  EXPECT_FALSE(planner->expand({Bytes(3)}).ok());
  Actions damaged = planner->sample(0, 0);
  damaged.bytes.back() = std::byte{200};
  EXPECT_FALSE(planner->expand(damaged).ok());
  const ScoredEpisode short_of_advantages{planner->sample(0, 0), {1}};
  EXPECT_FALSE(planner->accumulate_gradient({&short_of_advantages, 1}).ok());
  SimplePlannerOptions wrong = small_planner();
  wrong.hidden = 0;
  const auto refused = SimplePlanner::make(world.graph, world.devices, world.constraints, wrong, {}, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("hidden = 0: expected 1 to 4096"), std::string::npos);
  EXPECT_FALSE(
      SimplePlanner::make(world.graph, world.devices, world.constraints, small_planner(), Placement(3), 1)
          .ok());
}

}  // namespace
}  // namespace emplace::policy
