// Goal: the Hierarchical Planner matches the paper, is reproducible, and learns.
// Method: Eqs. 3–6 against finite differences of the surrogate; serialisation round trips; a small placement
// problem with a known optimum, learned from its simulated step times.
#include "policy/placers/hierarchical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "executor/sim/simulator.h"
#include "policy/loss/reward.h"
#include "policy/optim/adam.h"
#include "policy/placers/grouper_units.h"
#include "tests/policy/differences.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {
namespace {

struct HierarchicalWorld : testing::SampleTask {
  explicit HierarchicalWorld(OpGraph ops = testing::random_graph(3, 24))
      : SampleTask{std::move(ops), testing::sample_devices(2, true, 1 << 30)} {}  // cpu:0, gpu:0, gpu:1
  std::unique_ptr<HierarchicalPlanner> planner(HierarchicalOptions options, std::uint64_t seed = 1,
                                               HierarchicalInitial start = {}) const {
    return *HierarchicalPlanner::make({{{&graph, &devices, &constraints}, std::move(start)}}, options, seed);
  }
};

HierarchicalOptions small_hierarchical() {
  HierarchicalOptions options;
  options.groups = 4;
  options.hidden = 6;
  options.grouper_hidden = 5;
  options.type_embedding = 3;
  options.placements = 3;
  options.noise_updates = 0;
  return options;
}

TEST(Hierarchical, SamplingDependsOnParametersSeedAndEpisodeAlone) {
  const HierarchicalWorld world;
  const auto a = world.planner(small_hierarchical()), b = world.planner(small_hierarchical());
  EXPECT_EQ(a->sample(7, 0).bytes, b->sample(7, 0).bytes);
  EXPECT_NE(a->sample(7, 0).bytes, a->sample(8, 0).bytes);
  EXPECT_NE(a->sample(7, 0).bytes, world.planner(small_hierarchical(), 2)->sample(7, 0).bytes);
}

TEST(Hierarchical, PlacementsObeyTheConstraintsAndFollowTheGroups) {
  const HierarchicalWorld world;
  const auto planner = world.planner(small_hierarchical());
  const auto actions = planner->sample(0, 0);
  const auto choice = *planner->decode_actions(actions);
  const auto placements = *planner->expand(actions);
  ASSERT_EQ(placements.size(), 3u);
  for (std::size_t p = 0; p < placements.size(); ++p) {
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placements[p]).ok());
    for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
      EXPECT_EQ(index(placements[p][op]), choice.placed.devices[p * 4 + choice.group_of_op[op]]);
    }
  }
  EXPECT_TRUE(world.constraints.check(world.graph, world.devices, planner->greedy()).ok());
}

void check_gradient(const LossOptions& chosen, HierarchicalOptions options = small_hierarchical()) {
  const HierarchicalWorld world;
  options.loss = chosen;
  options.loss.entropy = 0.3f;
  options.table_scale = 1;
  options.sees_group = true;
  options.tanh_constant = 2;
  options.temperature = 1;
  const auto planner = world.planner(options);
  const std::vector<ScoredEpisode> batch{{planner->sample(0, 0), {0.5f, -1.0f, 0.25f}},
                                         {planner->sample(1, 0), {1.0f, 2.0f, -0.5f}}};
  ParameterStore& store = planner->parameters();
  const auto loss = [&] {
    const std::vector<float> kept(store.gradients().begin(), store.gradients().end());
    const double value = planner->accumulate_gradient(batch)->loss;
    std::copy(kept.begin(), kept.end(), store.gradients().begin());
    return value;
  };
  store.clear_gradients();
  ASSERT_TRUE(planner->accumulate_gradient(batch).ok());
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  Rng rng{4, Purpose::kTest};
  constexpr float kStep = 4e-3f;
  float largest = 0;
  for (int check = 0; check < 300; ++check) {
    const std::size_t i = rng.below(static_cast<std::uint32_t>(store.size()));
    const auto numeric = static_cast<float>(central_difference(loss, store.values()[i], kStep));
    EXPECT_NEAR(analytic[i], numeric, 2e-2f * std::max(0.5f, std::abs(numeric))) << "parameter " << i;
    largest = std::max(largest, std::abs(numeric));
  }
  EXPECT_GT(largest, 0.05f);
}

TEST(Hierarchical, GradientIsThatOfAdvantageTimesLogProbability) { check_gradient({}); }
TEST(Hierarchical, GradientReachesTheDecodersStart) {
  HierarchicalOptions options = small_hierarchical();
  options.start_from_encoder = true;
  check_gradient({}, options);
}

// h_0 = tanh(W h_T + b): the parameters of the start are the last of the store; without them it is zero.
TEST(Hierarchical, DecoderStartsFromTheEncoderIfConfigured) {
  const HierarchicalWorld world;
  HierarchicalOptions options = small_hierarchical();
  const auto zero = world.planner(options);
  options.start_from_encoder = true;
  const auto started = world.planner(options);
  const std::size_t added = 2 * (6 * 12 + 6);
  ASSERT_EQ(started->parameters().size(), zero->parameters().size() + added);
  const Actions actions = zero->sample(0, 0);
  const auto at_zero = *zero->log_probabilities(actions);
  EXPECT_NE(*started->log_probabilities(actions), at_zero);
  for (float& value : started->parameters().values().last(added)) value = 0;
  EXPECT_EQ(*started->log_probabilities(actions), at_zero) << "tanh(0); the networks are the same";
}

// Counts of types and total shapes are the shares and means times the group's size; adjacency is not scaled.
TEST(Hierarchical, SummedEmbeddingsAreMeansTimesTheSizeOfTheGroup) {
  const HierarchicalWorld world;
  const OpFeatures features = op_features(world.graph, {});
  std::vector<std::uint32_t> group_of_op;
  std::vector<float> size(4, 0);
  for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
    group_of_op.push_back(static_cast<std::uint32_t>(op % 7 == 0 ? 1 : op % 3));  // Group 3 is empty.
    size[group_of_op.back()] += 1;
  }
  const Matrix means = group_embeddings(world.graph, features, group_of_op, 4, OverGroup::kMeans, 4),
               sums = group_embeddings(world.graph, features, group_of_op, 4, OverGroup::kSums, 4);
  const auto types = static_cast<Eigen::Index>(features.vocabulary_size), rows = types + 16;
  for (Eigen::Index g = 0; g < 4; ++g) {
    const float ops = size[static_cast<std::size_t>(g)];
    EXPECT_EQ(sums.col(g).head(types).sum(), ops) << "counts";
    EXPECT_LT((sums.col(g).head(rows) - ops * means.col(g).head(rows)).cwiseAbs().maxCoeff(), 1e-5f);
    EXPECT_EQ(sums.col(g).tail(4), means.col(g).tail(4));
  }
  EXPECT_EQ(sums.col(3).head(rows).cwiseAbs().sum(), 0.0f);
}

// The paper's group embedding has total output shapes: without scaling they are sums of dimensions.
TEST(Hierarchical, UnscaledShapesAreSumsOfDimensions) {
  const HierarchicalWorld world;
  OpFeatureOptions options;
  options.scaled = false;
  const OpFeatures features = op_features(world.graph, options);
  const Matrix sums = group_embeddings(
      world.graph, features, std::vector<std::uint32_t>(world.graph.num_ops()), 1, OverGroup::kSums, 1);
  double expected = 0;
  for (std::uint32_t op = 0; op < world.graph.num_ops(); ++op) {
    for (std::size_t k = 0; k < std::min<std::size_t>(4, world.graph.num_outputs(OpId{op})); ++k) {
      const auto shape = world.graph.shape(world.graph.output(OpId{op}, k));
      for (std::size_t j = 0; j < std::min<std::size_t>(4, shape.size()); ++j)
        expected += static_cast<double>(shape[j]);
    }
  }
  ASSERT_GT(expected, 0);
  const auto types = static_cast<Eigen::Index>(features.vocabulary_size);
  EXPECT_NEAR(static_cast<double>(sums.col(0).segment(types, 16).sum()), expected, 1e-4 * expected);
}

TEST(Hierarchical, PlacerSeesSumsIfConfigured) {
  HierarchicalOptions options = small_hierarchical();
  const HierarchicalWorld world;
  const auto means = world.planner(options);
  options.sum_inputs = true;
  const auto sums = world.planner(options);
  const Actions actions = means->sample(0, 0);
  EXPECT_NE(*sums->log_probabilities(actions), *means->log_probabilities(actions));
  check_gradient({}, options);
}

TEST(Hierarchical, NoiseOfBothNetworksIsClippedAtItsLimit) {
  const HierarchicalWorld world;
  HierarchicalOptions options = small_hierarchical();
  options.noise_updates = 1;
  const auto drawn = [&](float noise, float limit) {
    options.noise = noise;
    options.noise_limit = limit;
    const auto planner = world.planner(options);
    return *planner->decode_actions(planner->sample(0, 0));
  };
  const auto cut = drawn(100, 1e-7f), hardly = drawn(1e-9f, 0), uncut = drawn(100, 0);
  EXPECT_EQ(cut.group_of_op, hardly.group_of_op);
  EXPECT_EQ(cut.placed.devices, hardly.placed.devices);
  EXPECT_NE(uncut.group_of_op, hardly.group_of_op);
  EXPECT_NE(uncut.placed.devices, hardly.placed.devices);
  options.noise_limit = -1;
  EXPECT_FALSE(
      HierarchicalPlanner::make({{{&world.graph, &world.devices, &world.constraints}, {}}}, options, 1).ok());
}

// The gradient draws the noise of an episode again: the KL divergence from the policy that drew it is 0, and
// the loss is advantage · (log p of the groups + log p of the devices), both with that noise.
TEST(Hierarchical, LearnsTheProbabilitiesWithRelativeNoise) {
  const HierarchicalWorld world;
  HierarchicalOptions options = small_hierarchical();
  options.noise = 0.5f;
  options.noise_updates = 3;
  options.relative_noise = true;
  options.loss.kind = LossKind::kKlPenalised;
  const auto penalised = world.planner(options);
  const ScoredEpisode noisy{penalised->sample(5, 2), {1, 1, 1}}, calm{penalised->sample(5, 3), {1, 1, 1}};
  EXPECT_EQ(penalised->decode_actions(noisy.actions)->noise, 0.5f);
  EXPECT_EQ(penalised->decode_actions(calm.actions)->noise, 0.0f);
  EXPECT_EQ(penalised->accumulate_gradient({&noisy, 1})->divergence, 0);
  EXPECT_EQ(penalised->accumulate_gradient({&calm, 1})->divergence, 0);
  auto other = *penalised->decode_actions(noisy.actions);
  other.episode = 6;
  const ScoredEpisode another{penalised->encode_actions(other), {1, 1, 1}};
  EXPECT_GT(penalised->accumulate_gradient({&another, 1})->divergence, 1e-4) << "another noise";

  options.loss.kind = LossKind::kReinforce;
  options.placements = 1;
  const auto planner = world.planner(options);
  const ScoredEpisode drawn{planner->sample(5, 2), {1}};
  const auto choice = *planner->decode_actions(drawn.actions);
  const OpFeatures features = op_features(world.graph, options.features);
  const auto units = class_leaders(world.constraints);
  std::vector<std::uint16_t> groups;
  for (const OpId unit : units) groups.push_back(static_cast<std::uint16_t>(choice.group_of_op[index(unit)]));
  ParameterStore store;
  const Grouper grouper{store, "grouper", {4, 3, 5}, grouper_units(features, units), 1};
  const float weight = 1;
  const double of_groups = grouper.accumulate_gradient(
      store, {&groups, 1}, {&weight, 1}, nullptr, GrouperNoise{Rng{1, Purpose::kNoise, 5}, 0.5f, 0, true});
  const auto parts = *planner->accumulate_gradient({&drawn, 1});
  EXPECT_NEAR(parts.loss, of_groups + parts.log_probability, 1e-4);
  EXPECT_NEAR(parts.log_probability, planner->log_probabilities(drawn.actions)->front(), 2);
  EXPECT_NE(parts.log_probability, planner->log_probabilities(drawn.actions)->front()) << "without noise";
  Actions damaged = drawn.actions;
  const float nan = std::nanf("");
  std::memcpy(damaged.bytes.data() + sizeof(std::uint64_t), &nan, sizeof nan);
  EXPECT_FALSE(planner->expand(damaged).ok());
}

TEST(Hierarchical, RepeatsTheLastDrawnDevicesForNewGroups) {
  const HierarchicalWorld world;
  HierarchicalOptions options = small_hierarchical();
  options.draw_updates = 2;
  const auto planner = world.planner(options);
  Adam adam;
  const auto update = [&](std::uint64_t number) {
    const ScoredEpisode episode{planner->sample(number, number), {1, -1, 0.5f}};
    planner->start_update(number);
    planner->parameters().clear_gradients();
    const auto parts = planner->accumulate_gradient({&episode, 1});
    ASSERT_TRUE(parts.ok());
    adam.step(planner->parameters(), 0.05f);
    planner->end_update(*parts);
  };
  const auto choice = [&](std::uint64_t episode, std::uint64_t number) {
    return *planner->decode_actions(planner->sample(episode, number));
  };
  update(0);
  const auto last = choice(1, 1);
  EXPECT_NE(choice(2, 1).placed.devices, last.placed.devices) << "still drawn";
  update(1);
  std::set<std::vector<std::uint32_t>> groupings;
  for (std::uint64_t number = 2; number < 6; ++number) {
    EXPECT_EQ(choice(number, number).placed.devices, last.placed.devices) << "update " << number;
    groupings.insert(choice(number, number).group_of_op);
    update(number);
  }
  EXPECT_EQ(groupings.size(), 4u) << "groups are drawn";
  const auto resumed = world.planner(options, 2);
  ASSERT_TRUE(resumed->parameters().load(planner->parameters().bytes()).ok());
  EXPECT_EQ(resumed->decode_actions(resumed->sample(9, 6))->placed.devices, last.placed.devices);
  EXPECT_NE(choice(9, 0).placed.devices, last.placed.devices);
}

TEST(Hierarchical, RepeatedDevicesObeyTheConstraintsAndTheirRange) {
  const HierarchicalWorld world{testing::restricted_graph()};
  HierarchicalOptions options = small_hierarchical();
  options.draw_updates = 1;
  const auto planner = world.planner(options);
  for (const float device : {0.0f, 2.0f, 7.0f, -1.0f, std::nanf("")}) {
    for (float& value : planner->parameters().values().last(4 * 3)) value = device;  // The last drawn ones.
    const bool known = device == 0 || device == 2;
    for (std::uint64_t e = 0; e < 10; ++e) {
      const ScoredEpisode episode{planner->sample(e, 1), {1, 1, 1}};
      EXPECT_TRUE(planner->accumulate_gradient({&episode, 1}).ok()) << "no forbidden device";
      const auto devices = planner->decode_actions(episode.actions)->placed.devices;
      EXPECT_GT(std::ranges::count(devices, known ? static_cast<std::uint8_t>(device) : 0), 0);
    }
  }
  options.features.words = {"word"};
  const auto refused = HierarchicalPlanner::make({{{&world.graph, &world.devices, &world.constraints}, {}},
                                                  {{&world.graph, &world.devices, &world.constraints}, {}}},
                                                 options, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("draw_updates"), std::string::npos);
}

TEST(GroupOrder, IsTheIndexOrOneShufflePerSeed) {
  std::set<std::vector<std::uint16_t>> orders;
  std::vector<std::uint16_t> index(64);
  std::iota(index.begin(), index.end(), std::uint16_t{0});
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(group_places(GroupOrder::kIndex, 64, seed), index);
    const auto places = group_places(GroupOrder::kShuffled, 64, seed);
    EXPECT_EQ(places, group_places(GroupOrder::kShuffled, 64, seed));
    auto sorted = places;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, index);
    EXPECT_NE(places, index);
    orders.insert(places);
  }
  EXPECT_EQ(orders.size(), 10u) << "ten seeds, ten orders";
}

// The Grouper draws as before; the Placer gets the groups with all their data in the other order.
TEST(Hierarchical, ShuffledOrderAffectsThePlacerAlone) {
  const HierarchicalWorld world;
  HierarchicalOptions options = small_hierarchical();
  const auto by_index = world.planner(options);
  options.order = GroupOrder::kShuffled;
  const auto shuffled = world.planner(options);
  const auto place = group_places(GroupOrder::kShuffled, 4, 1);
  const auto a = *by_index->decode_actions(by_index->sample(0, 0)),
             b = *shuffled->decode_actions(shuffled->sample(0, 0));
  for (std::size_t op = 0; op < a.group_of_op.size(); ++op)
    EXPECT_EQ(b.group_of_op[op], place[a.group_of_op[op]]);
  check_gradient({}, options);
}

TEST(Hierarchical, PlacerMayHaveAnotherLoss) {
  check_gradient({.kind = LossKind::kKlPenalised, .beta = 2});
  check_gradient({.kind = LossKind::kClippedRatio, .clip = 0.3f});
}

TEST(Hierarchical, SavesLoadsAndHashes) {
  const HierarchicalWorld world;
  const auto a = world.planner(small_hierarchical(), 1), b = world.planner(small_hierarchical(), 2);
  EXPECT_NE(a->parameters().sha256(), b->parameters().sha256());
  ASSERT_TRUE(b->parameters().load(a->parameters().bytes()).ok());
  EXPECT_EQ(a->parameters().sha256(), b->parameters().sha256());
  EXPECT_FALSE(b->parameters().load(Bytes(7)).ok());
}

TEST(Hierarchical, RefusesActionsOfOthersAndImpossibleNumbers) {
  const HierarchicalWorld world, other{testing::random_graph(9, 30)};
  const auto planner = world.planner(small_hierarchical());
  EXPECT_FALSE(planner->expand(other.planner(small_hierarchical())->sample(0, 0)).ok());
  EXPECT_FALSE(planner->expand({Bytes(3)}).ok());
  Actions damaged = planner->sample(0, 0);
  damaged.bytes.back() = std::byte{200};
  EXPECT_FALSE(planner->expand(damaged).ok());
  HierarchicalOptions wrong = small_hierarchical();
  wrong.groups = 0;
  const auto refused =
      HierarchicalPlanner::make({{{&world.graph, &world.devices, &world.constraints}, {}}}, wrong, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("groups = 0"), std::string::npos);
}

void check_start(GroupOrder order) {
  const HierarchicalWorld world;
  HierarchicalOptions options = small_hierarchical();
  options.order = order;
  options.start_at_scopes = true;
  options.grouper_confidence = 30;
  options.table_scale = 1;
  options.start_probability = 0.95f;
  options.tanh_constant = 0.1f;
  HierarchicalInitial start;
  for (std::size_t op = 0; op < world.graph.num_ops(); ++op)
    start.group_of_op.push_back(static_cast<std::uint16_t>(world.constraints.classes()[op] % 4));
  for (std::size_t op = 0; op < world.graph.num_ops(); ++op)
    start.placement.push_back(static_cast<DeviceId>(start.group_of_op[op] % 3));
  const auto planner = world.planner(options, 1, start);
  int repeated = 0;
  for (std::uint64_t e = 0; e < 50; ++e) {
    const auto choice = *planner->decode_actions(planner->sample(e, 0));
    const auto place = group_places(order, 4, 1);
    for (std::size_t g = 0; g < 4; ++g) repeated += choice.placed.devices[place[g]] == g % 3 ? 1 : 0;
  }
  EXPECT_GT(repeated, 200 * 85 / 100);
  const auto logged = planner->actions_of(0, {&start.placement, 1}, std::vector{0.0});
  ASSERT_TRUE(logged.ok()) << logged.error().context;
  EXPECT_EQ(planner->expand(*logged)->front(), start.placement);
}

TEST(Hierarchical, WarmStartedPolicyMostlyRepeatsItsStart) {
  check_start(GroupOrder::kIndex);
  check_start(GroupOrder::kShuffled);
}

TEST(Hierarchical, GroupsAreOnlyPlacedWhereAllTheirOpsMayRun) {
  const HierarchicalWorld world{testing::restricted_graph()};
  HierarchicalOptions options = small_hierarchical();
  options.start_at_scopes = true;
  options.grouper_confidence = 30;
  options.noise = 0.5f;
  options.noise_updates = 1;
  HierarchicalInitial start;
  for (std::uint32_t i = 0; i < 12; ++i) start.group_of_op.push_back(static_cast<std::uint16_t>(i % 4));
  const auto planner = world.planner(options, 1, start);
  int elsewhere = 0;
  for (std::uint64_t e = 0; e < 20; ++e) {
    const auto choice = *planner->decode_actions(planner->sample(e, 0));
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_EQ(choice.placed.devices[p * 4], 2);
      elsewhere += choice.placed.devices[p * 4 + 1] != 2 ? 1 : 0;
    }
  }
  EXPECT_GT(elsewhere, 10) << "the other groups are free";
  auto forbidden = *planner->decode_actions(planner->sample(0, 0));
  forbidden.placed.devices[0] = 0;
  const ScoredEpisode episode{planner->encode_actions(forbidden), {1, 1, 1}};
  EXPECT_FALSE(planner->accumulate_gradient({&episode, 1}).ok());
}

TEST(Hierarchical, LearnsToUseBothDevices) {
  // Two chains of 20 ops each, one device each is best: 20 ops of 10 us; together on one device it takes
  // twice as long.
  std::vector<testing::SampleOp> ops;
  for (std::uint32_t i = 0; i < 40; ++i) {
    testing::SampleOp op{.name = "op" + std::to_string(i)};
    if (i >= 2) op.inputs = {{i - 2, 0}};
    op.gpu_us = 10;
    op.output_bytes = {200'000};  // A copy takes 200 us, so crossing the chains is expensive.
    op.type = i % 2 == 0 ? "Left" : "Right";
    ops.push_back(op);
  }
  const OpGraph graph = testing::sample_graph(ops);
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 30);
  const Constraints constraints = *Constraints::make(graph, devices);
  Simulator simulator{graph, devices};
  HierarchicalOptions options;
  options.groups = 4;
  options.hidden = 16;
  options.grouper_hidden = 16;
  options.type_embedding = 4;
  options.placements = 4;
  options.noise_updates = 0;
  options.start_at_scopes = true;
  options.grouper_confidence =
      12;  // The Grouper starts with each chain in two groups; the Placer must separate the chains.
  HierarchicalInitial start;
  for (std::uint32_t i = 0; i < 40; ++i)
    start.group_of_op.push_back(static_cast<std::uint16_t>(i % 2 + 2 * (i / 20)));
  auto planner = *HierarchicalPlanner::make({{{&graph, &devices, &constraints}, start}}, options, 1);
  Adam adam;
  double best = 1, baseline = 0;
  RewardOptions reward{Transform::kLog};
  for (std::uint64_t episode = 0; episode < 400; ++episode) {
    const Actions actions = planner->sample(episode, episode);
    std::vector<float> costs;
    for (const Placement& placement : *planner->expand(actions)) {
      Measurement m;
      ASSERT_TRUE(simulator.measure(placement, m).ok());
      best = std::min(best, m.step_time_s);
      costs.push_back(static_cast<float>(placement_cost(reward, m.valid, m.step_time_s, m.bytes_over)));
    }
    if (episode == 0) baseline = costs[0];
    ScoredEpisode scored{actions, {}};
    for (const float cost : costs) scored.advantages.push_back(cost - static_cast<float>(baseline));
    for (const float cost : costs) baseline = 0.9 * baseline + 0.1 * cost;
    planner->parameters().clear_gradients();
    ASSERT_TRUE(planner->accumulate_gradient({&scored, 1}).ok());
    adam.step(planner->parameters(), 0.02f);
  }
  EXPECT_DOUBLE_EQ(best, 200e-6) << "both chains at once";
  Measurement settled;
  ASSERT_TRUE(simulator.measure(planner->greedy(), settled).ok());
  EXPECT_DOUBLE_EQ(settled.step_time_s, 200e-6) << "and that is what it settled on";
}

}  // namespace
}  // namespace emplace::policy
