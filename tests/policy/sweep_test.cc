// Goal: the sweep draws only permitted placements, has the same parameters for any graph and machine, and
// ascends its objective. Method: finite differences of its loss; small worlds by hand, one with a known
// optimum; bad inputs.
#include "policy/placers/sweep.h"

#include <gtest/gtest.h>

#include <cmath>

#include "policy/optim/adam.h"
#include "policy/training/trainer.h"
#include "tests/policy/differences.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {
namespace {

/// A chain of `groups` groups of one op, on `gpus` fast devices with room for `room` groups each and a slow
/// device.
struct Chain : testing::SampleTask {
  explicit Chain(std::size_t groups, std::size_t gpus = 2, double room = 100)
      : SampleTask{ops(groups), testing::sample_devices(gpus, true, 1 << 30)} {
    view.constraints = &constraints;
    SweepWorld& world = view.world;
    world.groups = groups;
    world.devices = gpus + 1;
    for (std::size_t d = 0; d <= gpus; ++d) {
      world.time_s.insert(world.time_s.end(), groups, d == 0 ? 10.0 : 1.0);
      world.accelerator.push_back(d > 0);
      world.memory.push_back(d > 0 ? room : 1e9);
      world.kind.push_back(d > 0);
    }
    world.bytes.assign(groups, 1);
    for (std::uint32_t g = 0; g < groups; ++g) {
      view.group_of_op.push_back(g);
      if (g + 1 < groups) world.nets.push_back({g, {g + 1}, g % 4 == 3 ? 0.1 : 5.0});
    }
  }
  static OpGraph ops(std::size_t count) {
    std::vector<testing::SampleOp> ops;
    for (std::uint32_t op = 0; op < count; ++op) {
      ops.push_back({"op" + std::to_string(op), {}});
      if (op > 0) ops.back().inputs.push_back({op - 1, 0});
    }
    return testing::sample_graph(ops);
  }
  std::unique_ptr<SweepPlacer> placer(SweepOptions options, std::uint64_t seed = 1) const {
    return *SweepPlacer::make({view}, options, seed);
  }
  /// Time of the consecutive parts, with transfers counted on both sides.
  double cost(const Placement& placement) const {
    double total = 0;
    for (std::size_t g = 0; g < placement.size(); ++g) {
      total += view.world.time_s[index(placement[g]) * view.world.groups + g];
      if (g + 1 < placement.size() && placement[g] != placement[g + 1])
        total += view.world.nets[g].transfer_s * (view.world.accelerator[index(placement[g])] +
                                                  view.world.accelerator[index(placement[g + 1])]);
    }
    return total;
  }
  SweepGraph view;
};

SweepOptions small_sweep() {
  SweepOptions options;
  options.hidden = 5;
  options.placements = 3;
  return options;
}

/// Changes the parameters; the last matrix is zero at the start.
void shake_sweep(Placer& placer) {
  Rng rng{9, Purpose::kTest};
  for (float& value : placer.parameters().values()) value += 0.3f * rng.normal();
}

TEST(Sweep, SamplesAreValidAndFeasible) {
  const Chain chain{9, 2, 4};
  const auto placer = chain.placer(small_sweep());
  EXPECT_EQ(placer->sample(7, 0).bytes, chain.placer(small_sweep())->sample(7, 0).bytes);
  EXPECT_NE(placer->sample(7, 0).bytes, placer->sample(8, 0).bytes);
  EXPECT_NE(placer->sample(7, 0).bytes, chain.placer(small_sweep(), 2)->sample(7, 0).bytes);
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    const auto placements = *placer->expand(placer->sample(episode, 0));
    ASSERT_EQ(placements.size(), 3u);
    for (const Placement& placement : placements) {
      EXPECT_LE(std::count(placement.begin(), placement.end(), DeviceId{1}), 4);
      EXPECT_LE(std::count(placement.begin(), placement.end(), DeviceId{2}), 4);
    }
  }
}

TEST(Sweep, GradientIsThatOfItsObjective) {
  const Chain chain{6};
  SweepOptions options = small_sweep();
  options.entropy = 0.2f;
  options.logit_bound = 3;
  options.stay = 0.5f;
  const auto placer = chain.placer(options);
  shake_sweep(*placer);
  const std::vector<ScoredEpisode> batch{{placer->sample(0, 0), {0.5f, -1.0f, 0.25f}},
                                         {placer->sample(1, 0), {1.0f, 2.0f, -0.5f}}};
  ParameterStore& store = placer->parameters();
  const auto loss = [&] { return placer->accumulate_gradient(batch)->loss; };
  store.clear_gradients();
  ASSERT_TRUE(placer->accumulate_gradient(batch).ok());
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  float largest = 0;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const auto numeric = static_cast<float>(central_difference(loss, store.values()[i], 2e-3f));
    EXPECT_NEAR(analytic[i], numeric, 3e-2f * std::max(0.5f, std::abs(numeric))) << "parameter " << i;
    largest = std::max(largest, std::abs(numeric));
  }
  EXPECT_GT(largest, 0.05f);
}

TEST(Sweep, EqualCostsGiveNoGradient) {
  const Chain chain{6};
  const auto placer = chain.placer(small_sweep());
  shake_sweep(*placer);
  const ScoredEpisode alike{placer->sample(0, 0), {2, 2, 2}}, shifted{placer->sample(0, 0), {5, 6, 7}},
      plain{placer->sample(0, 0), {-1, 0, 1}};
  const auto gradient_of = [&](const ScoredEpisode& episode) {
    placer->parameters().clear_gradients();
    EXPECT_TRUE(placer->accumulate_gradient({&episode, 1}).ok());
    const auto gradients = placer->parameters().gradients();
    return std::vector<float>(gradients.begin(), gradients.end());
  };
  for (const float g : gradient_of(alike)) EXPECT_EQ(g, 0);
  EXPECT_EQ(gradient_of(shifted), gradient_of(plain));
}

TEST(Sweep, ParametersOfOneGraphAndMachinePlaceAnother) {
  const Chain chain{12, 3, 4}, other{20, 7, 4};
  const auto learned = chain.placer(small_sweep());
  shake_sweep(*learned);
  const auto placer = other.placer(small_sweep(), 2);
  ASSERT_TRUE(placer->parameters().load(learned->parameters().bytes()).ok());
  EXPECT_EQ(placer->parameters().sha256(), learned->parameters().sha256());
  EXPECT_EQ(placer->greedy().size(), 20u);
}

TEST(Sweep, LearnsWhereToCutAlsoOnUnseenGraphs) {
  // Every fourth tensor is cheap; a device has room for five groups: four at a time is best.
  const Chain chain{16, 5, 5}, unseen{24, 7, 5};
  SweepOptions options;
  options.hidden = 16;
  options.placements = 16;
  const auto placer = chain.placer(options);
  Adam adam;
  for (std::uint64_t episode = 0; episode < 300; ++episode) {
    const Actions actions = placer->sample(episode, 0);
    ScoredEpisode scored{actions, {}};
    for (const Placement& placement : *placer->expand(actions))
      scored.advantages.push_back(static_cast<float>(chain.cost(placement)));
    placer->parameters().clear_gradients();
    ASSERT_TRUE(placer->accumulate_gradient({&scored, 1}).ok());
    adam.step(placer->parameters(), 0.005f);
  }
  EXPECT_NEAR(chain.cost(placer->greedy()), 16 + 3 * 0.2, 1e-9);
  const auto there = unseen.placer(options);
  ASSERT_TRUE(there->parameters().load(placer->parameters().bytes()).ok());
  EXPECT_NEAR(unseen.cost(there->greedy()), 24 + 5 * 0.2, 1e-9);
}

TEST(Sweep, StartsAtThePlacementToImprove) {
  Chain chain{8};
  for (std::size_t g = 0; g < 8; ++g) chain.view.start.push_back(g < 4 ? DeviceId{2} : DeviceId{1});
  SweepOptions options = small_sweep();
  options.stay = 9;
  options.improves = true;
  const auto placer = chain.placer(options);
  Placement renamed;
  for (std::size_t g = 0; g < 8; ++g) renamed.push_back(g < 4 ? DeviceId{1} : DeviceId{2});
  EXPECT_EQ(placer->greedy(), renamed);
  // It starts at a better placement if that is given.
  EXPECT_EQ(placer->incumbent(), Incumbent::kFitting);
  const Placement best(8, DeviceId{1});
  const auto drawn = *placer->expand(placer->sample_from({&best, 1}, 0, 0));
  EXPECT_EQ(drawn[0], best);
}

TEST(Sweep, LearnsToRepeatAPlacement) {
  const Chain chain{8};
  const auto placer = chain.placer(SweepOptions{});
  Placement wanted;
  for (std::size_t g = 0; g < 8; ++g) wanted.push_back(g < 4 ? DeviceId{1} : DeviceId{0});
  const auto reached = imitate(*placer, {.placement = wanted, .probability = 0.95, .learning_rate = 0.02f});
  ASSERT_TRUE(reached.ok());
  EXPECT_GE(*reached, 0.95);
  EXPECT_EQ(placer->greedy(), wanted);
}

TEST(Sweep, RepeatsTheFeasiblePartOfAnInfeasiblePlacement) {
  const Chain chain{6, 2, 2};
  const auto placer = chain.placer(SweepOptions{});
  const auto reached =
      imitate(*placer, {.placement = Placement(6, DeviceId{1}), .probability = 0.95, .learning_rate = 0.02f});
  ASSERT_TRUE(reached.ok());
  EXPECT_GE(*reached, 0.95);
  const Placement placed = placer->greedy();
  EXPECT_EQ(placed[0], DeviceId{1});
  EXPECT_EQ(placed[1], DeviceId{1});
  EXPECT_NE(placed[2], DeviceId{1});
}

TEST(Sweep, RefusesActionsOfOthersAndImpossibleNumbers) {
  const Chain chain{6, 2, 2};
  const auto placer = chain.placer(small_sweep());
  EXPECT_FALSE(placer->expand({Bytes(3)}).ok());
  Actions damaged = placer->sample(0, 0);
  damaged.bytes.back() = std::byte{200};
  EXPECT_FALSE(placer->expand(damaged).ok());
  damaged = placer->sample(0, 0);
  damaged.bytes[0] = std::byte{1};
  EXPECT_FALSE(placer->expand(damaged).ok());
  const ScoredEpisode short_of_advantages{placer->sample(0, 0), {1}};
  EXPECT_FALSE(placer->accumulate_gradient({&short_of_advantages, 1}).ok());
  // Everything on a device with room for two groups.
  Actions crammed = placer->sample(0, 0);
  for (auto at = crammed.bytes.end() - 3 * 6; at != crammed.bytes.end(); ++at) *at = std::byte{1};
  const ScoredEpisode too_much{crammed, {1, 2, 3}};
  const auto refused = placer->accumulate_gradient({&too_much, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("forbidden device"), std::string::npos);
  SweepOptions wrong = small_sweep();
  wrong.hidden = 0;
  EXPECT_NE(SweepPlacer::make({chain.view}, wrong, 1).error().context.find("hidden = 0: expected 1 to 4096"),
            std::string::npos);
  EXPECT_FALSE(SweepPlacer::make({}, small_sweep(), 1).ok());
}

}  // namespace
}  // namespace emplace::policy
