// Goal: a policy returns the likelihoods of its placements, and accepts placements that others drew, so that
// it learns from them what it would have learned from its own. Method: all placements of small graphs
// enumerated; uniform draws with weights pi / q compared with the exact gradient; refusals by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "policy/group_devices.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/random_placer.h"
#include "policy/placers/sequence.h"
#include "policy/placers/simple_planner.h"
#include "tests/policy/placeto_world.h"

namespace emplace::policy {
namespace {

Grouping pairs(std::size_t ops) {
  Grouping made;
  for (std::uint32_t op = 0; op < ops; ++op) made.group_of_op.push_back(op / 2);
  made.num_groups = (ops + 1) / 2;
  return made;
}

/// A graph on two GPUs with its ops in pairs, and small policies of every kind with changed parameters.
struct OffPolicyWorld : testing::SampleTask {
  explicit OffPolicyWorld(OpGraph ops, Grouping given = {})
      : SampleTask{std::move(ops), testing::sample_devices(2, false, 1 << 30)},
        grouping{given.num_groups == 0 ? pairs(graph.num_ops()) : std::move(given)} {}

  std::unique_ptr<Placer> sequence(const LossOptions& loss = {}) const {
    SequenceOptions options = colocrl_options();
    options.network.hidden = 5;
    options.embedding = 3;
    options.placements = 3;
    options.loss = loss;
    return shaken(*SequencePlacer::make({{{&graph, &devices, &constraints}, grouping, {}}}, options, 1));
  }
  std::unique_ptr<Placer> hierarchical(bool started = true, std::size_t groups = 0) const {
    HierarchicalOptions options;
    options.groups = groups == 0 ? grouping.num_groups : groups;
    options.hidden = options.grouper_hidden = 5;
    options.type_embedding = 3;
    HierarchicalInitial start;
    if (started) start.group_of_op.assign(grouping.group_of_op.begin(), grouping.group_of_op.end());
    return shaken(*HierarchicalPlanner::make({{{&graph, &devices, &constraints}, start}}, options, 1));
  }
  std::unique_ptr<Placer> simple(float max_weight = 0) const {
    SimplePlannerOptions options;
    options.type_embedding = 3;
    options.hidden = 6;
    options.max_weight = max_weight;
    return shaken(*SimplePlanner::make(graph, devices, constraints, options, {}, 1));
  }
  std::unique_ptr<Placer> placeto(const LossOptions& loss = {}, std::size_t rounds = 1) const {
    PlacetoOptions options = small_options();
    options.loss = loss;
    options.rounds_per_episode = rounds;
    options.traversal = Traversal::kReversed;
    return shaken(*PlacetoPlacer::make({{{&graph, &devices, &constraints}, grouping, {}}}, options, 1));
  }
  std::vector<std::unique_ptr<Placer>> all() const {
    std::vector<std::unique_ptr<Placer>> placers;
    placers.push_back(sequence());
    placers.push_back(hierarchical());
    placers.push_back(simple());
    placers.push_back(placeto());
    return placers;
  }
  bool obeyed(const Placement& placement) const { return constraints.check(graph, devices, placement).ok(); }

  Grouping grouping;

 private:
  static std::unique_ptr<Placer> shaken(std::unique_ptr<Placer> placer) {
    Rng rng{11, Purpose::kTest};
    for (float& value : placer->parameters().values()) value += 0.1f * rng.normal();
    return placer;
  }
};

OpGraph chain(std::uint32_t count) {
  std::vector<testing::SampleOp> ops;
  for (std::uint32_t i = 0; i < count; ++i) {
    testing::SampleOp op{.name = "op" + std::to_string(i)};
    if (i > 0) op.inputs = {{i - 1, 0}};
    op.type = i % 2 == 0 ? "Left" : "Right";
    ops.push_back(op);
  }
  return testing::sample_graph(ops);
}

/// A grouping with every op alone.
Grouping singles(std::size_t ops) {
  Grouping made;
  for (std::uint32_t op = 0; op < ops; ++op) made.group_of_op.push_back(op);
  made.num_groups = ops;
  return made;
}

void for_all_placements(const OffPolicyWorld& world, const std::function<void(const Placement&)>& visit) {
  const std::size_t ops = world.graph.num_ops();
  for (std::uint32_t bits = 0; bits < 1u << ops; ++bits) {
    Placement placement;
    for (std::size_t op = 0; op < ops; ++op) placement.push_back(static_cast<DeviceId>(bits >> op & 1));
    if (world.obeyed(placement)) visit(placement);
  }
}

TEST(OffPolicy, ProbabilitiesOfAllPlacementsSumToOne) {
  for (const OffPolicyWorld& world :
       {OffPolicyWorld{chain(6)}, OffPolicyWorld{testing::restricted_graph()}}) {
    int number = 0;
    for (const auto& placer : world.all()) {
      double mass = 0;
      std::size_t taken = 0;
      for_all_placements(world, [&](const Placement& placement) {
        const double unused = 0;
        const auto actions = actions_of(*placer, 0, {&placement, 1}, {&unused, 1});
        if (!actions) return;
        ++taken;
        mass += std::exp(placer->log_probabilities(*actions)->front());
      });
      EXPECT_NEAR(mass, 1, 1e-4) << "placer " << number++;
      EXPECT_GE(taken, 8u);
    }
  }
}

// Every fourth op may only be on gpu:1, so that several draws lead to one placement.
TEST(OffPolicy, RandomPlacerCountsTheDrawsOfAPlacement) {
  const OffPolicyWorld world{testing::restricted_graph(), pairs(12)};
  const RandomPlacer random{world.grouping, world.devices, world.constraints, 1, 1};
  std::map<Placement, double> probability;
  double draws = 0;
  for (std::uint32_t bits = 0; bits < 1u << world.grouping.num_groups; ++bits) {
    Actions actions;
    for (std::size_t g = 0; g < world.grouping.num_groups; ++g)
      actions.bytes.push_back(static_cast<std::byte>(bits >> g & 1));
    const double log_p = random.log_probabilities(actions)->front();
    const auto [at, fresh] = probability.emplace(random.expand(actions)->front(), std::exp(log_p));
    EXPECT_DOUBLE_EQ(at->second, std::exp(log_p)) << "a property of the placement";
    ++draws;
  }
  double mass = 0;
  for (const auto& [placement, p] : probability) mass += p;
  EXPECT_NEAR(mass, 1, 1e-9);
  EXPECT_EQ(draws, 64);
}

TEST(OffPolicy, PlacementsRoundTripThroughActions) {
  for (const OffPolicyWorld& world :
       {OffPolicyWorld{chain(6)}, OffPolicyWorld{testing::restricted_graph()}}) {
    for (const auto& placer : world.all()) {
      for (std::uint64_t episode = 0; episode < 20; ++episode) {
        const auto placements = *placer->expand(placer->sample(episode, 1000));
        // The last placement: for Placeto the result, for the others any.
        const Placement& own = placements.back();
        const double log_q = -3;
        // A placement that the hierarchical planner drew under another grouping may be split under this one.
        const auto actions = actions_of(*placer, 0, {&own, 1}, {&log_q, 1});
        if (!actions) continue;
        EXPECT_EQ(placer->expand(*actions)->back(), own);
      }
    }
    // Any placement that is constant on each group.
    Rng rng{5, Purpose::kTest};
    const std::vector<std::vector<bool>> allowed = allowed_group_devices(
        world.constraints, 2, std::span{world.grouping.group_of_op}, world.grouping.num_groups);
    for (int draw = 0; draw < 50; ++draw) {
      Placement placement(world.graph.num_ops());
      for (std::uint32_t g = 0; g < world.grouping.num_groups; ++g) {
        std::uint32_t device = rng.below(2);
        if (!allowed.empty() && !allowed[g][device]) device = 1 - device;
        for (std::size_t op = 0; op < placement.size(); ++op)
          if (world.grouping.group_of_op[op] == g) placement[op] = static_cast<DeviceId>(device);
      }
      for (const auto& placer : world.all()) {
        const double log_q = -3;
        const auto actions = actions_of(*placer, 0, {&placement, 1}, {&log_q, 1});
        ASSERT_TRUE(actions.ok()) << actions.error().context;
        EXPECT_EQ(placer->expand(*actions)->back(), placement);
      }
    }
  }
}

TEST(OffPolicy, RefusesImpossiblePlacementsWithTheReason) {
  const OffPolicyWorld world{testing::restricted_graph()};
  const double log_q = -1;
  const auto reason = [&](const Placer& placer, const Placement& placement) {
    const auto refused = actions_of(placer, 0, {&placement, 1}, {&log_q, 1});
    return refused ? std::string{} : refused.error().context;
  };
  Placement torn(12, DeviceId{1}), forbidden(12, DeviceId{0});
  torn[3] = DeviceId{0};
  for (const auto& placer : {world.sequence(), world.hierarchical(), world.placeto()}) {
    EXPECT_NE(reason(*placer, torn).find("group 1: is split"), std::string::npos) << reason(*placer, torn);
    EXPECT_NE(reason(*placer, torn).find(std::string{world.graph.name(OpId{3})}), std::string::npos);
    EXPECT_NE(reason(*placer, torn).find("gpu:0"), std::string::npos);
  }
  EXPECT_EQ(reason(*world.simple(), torn), "");
  for (const auto& placer : world.all()) {
    EXPECT_NE(reason(*placer, forbidden), "");
    EXPECT_NE(reason(*placer, Placement(5, DeviceId{1})), "") << "of another graph";
  }
  const Placement fine(12, DeviceId{1});
  EXPECT_NE(reason(*world.hierarchical(false), fine).find("policy.hierarchical.start_at_scopes"),
            std::string::npos);
  EXPECT_NE(reason(*world.hierarchical(true, 9), fine).find("group 6: has no ops"), std::string::npos);
  EXPECT_NE(reason(*world.placeto({}, 2), fine).find("policy.placeto.passes"), std::string::npos);
  EXPECT_FALSE(actions_of(*world.placeto(), 1, {&fine, 1}, {&log_q, 1}).ok()) << "a graph that is not there";
  EXPECT_FALSE(actions_of(*world.placeto(), 0, {}, {}).ok());
  const RandomPlacer random{world.grouping, world.devices, world.constraints, 1, 1};
  EXPECT_NE(reason(random, fine), "") << "it learns nothing";
}

TEST(OffPolicy, LikelihoodsMatchThoseStoredAtTheDraw) {
  const OffPolicyWorld world{testing::restricted_graph()};
  const LossOptions weighing{.max_weight = 1};
  const auto sequence = world.sequence(weighing);
  const Actions drawn = sequence->sample(3, 1000);
  const auto decisions = *dynamic_cast<SequencePlacer&>(*sequence).decode_actions(drawn);
  const auto log_p = *sequence->log_probabilities(drawn);
  ASSERT_EQ(log_p.size(), 3u);
  for (std::size_t p = 0; p < 3; ++p) {
    double stored = 0;
    for (std::size_t n = 6 * p; n < 6 * p + 6; ++n) stored += decisions.log_q[2 * n + decisions.devices[n]];
    EXPECT_NEAR(log_p[p], stored, 1e-5);
  }
  const auto placeto = world.placeto(weighing);
  const Actions steps = placeto->sample(3, 0);
  const auto choice = *dynamic_cast<PlacetoPlacer&>(*placeto).decode_actions(steps);
  double stored = 0;
  for (std::size_t n = 0; n < 6; ++n) stored += choice.decisions.log_q[2 * n + choice.decisions.devices[n]];
  ASSERT_EQ(placeto->log_probabilities(steps)->size(), 1u);
  EXPECT_NEAR(placeto->log_probabilities(steps)->front(), stored, 1e-5);
}

// A policy's own draws have weight 1, so that weights change nothing.
TEST(OffPolicy, SimplePlannerGivesItsOwnDrawsWeightOne) {
  const OffPolicyWorld world{chain(6)};
  const auto plain = world.simple(), weighing = world.simple(1);
  const Actions own = weighing->sample(2, 1000);
  const std::vector<float> advantages{1, -0.5f, 2, 0.25f};
  const ScoredEpisode weighed{own, advantages}, unweighed{plain->sample(2, 1000), advantages};
  for (Placer* placer : {plain.get(), weighing.get()}) placer->parameters().clear_gradients();
  ASSERT_TRUE(weighing->accumulate_gradient({&weighed, 1}).ok());
  ASSERT_TRUE(plain->accumulate_gradient({&unweighed, 1}).ok());
  for (std::size_t i = 0; i < plain->parameters().size(); ++i)
    EXPECT_NEAR(plain->parameters().gradients()[i], weighing->parameters().gradients()[i], 1e-5f);
  EXPECT_FALSE(weighing->expand(plain->sample(2, 1000)).ok()) << "without probabilities";
  Actions cut = own;
  cut.bytes.resize(9);
  EXPECT_FALSE(weighing->expand(cut).ok());
}

/// A cost that depends on neighbours, so that no op can be judged alone.
float cost_of(const Placement& placement) {
  float total = 0;
  for (std::size_t i = 0; i < placement.size(); ++i)
    total +=
        (i > 0 && placement[i] != placement[i - 1] ? 1.0f : 0.0f) + (index(placement[i]) == 0 ? 0.3f : 0.0f);
  return total;
}

/// Compares the gradient of weighted uniform draws with that of the expected cost over all placements.
void expect_exact_in_the_mean(const OffPolicyWorld& world, Placer& weighing, Placer& plain) {
  ASSERT_TRUE(plain.parameters().load(weighing.parameters().bytes()).ok());
  ParameterStore& store = plain.parameters();
  std::vector<double> exact(store.size(), 0);
  std::vector<Placement> all;
  for_all_placements(world, [&](const Placement& placement) { all.push_back(placement); });
  for (const Placement& placement : all) {
    const double unused = 0;
    ScoredEpisode episode{*actions_of(plain, 0, {&placement, 1}, {&unused, 1}), {}};
    episode.advantages.assign(plain.expand(episode.actions)->size(), cost_of(placement));
    const double p = std::exp(plain.log_probabilities(episode.actions)->front());
    store.clear_gradients();
    ASSERT_TRUE(plain.accumulate_gradient({&episode, 1}).ok());
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += p * static_cast<double>(store.gradients()[i]);
  }
  const double log_q = -std::log(static_cast<double>(all.size()));
  constexpr int kSamples = 2000;
  constexpr float kBaseline = 3;  // A constant does not change the mean.
  Rng rng{7, Purpose::kTest};
  std::vector<double> along;
  for (std::size_t i = 0; i < store.size(); ++i) along.push_back(2 * rng.uniform_double() - 1);
  double truth = 0, sum = 0, square = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) truth += exact[i] * along[i];
  for (int s = 0; s < kSamples; ++s) {
    const Placement& placement = all[rng.below(static_cast<std::uint32_t>(all.size()))];
    ScoredEpisode episode{*actions_of(weighing, 0, {&placement, 1}, {&log_q, 1}), {}};
    episode.advantages.assign(weighing.expand(episode.actions)->size(), cost_of(placement) - kBaseline);
    weighing.parameters().clear_gradients();
    ASSERT_TRUE(weighing.accumulate_gradient({&episode, 1}).ok());
    double slope = 0;
    for (std::size_t i = 0; i < along.size(); ++i)
      slope += static_cast<double>(weighing.parameters().gradients()[i]) * along[i];
    sum += slope;
    square += slope * slope;
  }
  const double mean = sum / kSamples, error = std::sqrt((square / kSamples - mean * mean) / kSamples);
  EXPECT_NEAR(mean, truth, 3 * error);
  EXPECT_LT(error, 0.25 * std::abs(truth) + 0.05) << "the test is precise enough";
}

TEST(OffPolicy, WeightedPlacementsOfOthersGiveTheExactGradientInTheMean) {
  const OffPolicyWorld world{chain(6), singles(6)};
  const LossOptions weighing{.max_weight = 1e6f};
  expect_exact_in_the_mean(world, *world.sequence(weighing), *world.sequence());
  expect_exact_in_the_mean(world, *world.placeto(weighing), *world.placeto());
  expect_exact_in_the_mean(world, *world.simple(1e6f), *world.simple());
}

}  // namespace
}  // namespace emplace::policy
