// Goal: the sequence placer matches the papers, is reproducible, refuses actions of others, and its gradient
// is that of each loss, for samples and in the mean.  Method: finite differences through the whole placer,
// including networks and embeddings; all placements of a small graph enumerated; bad inputs by hand.
#include "policy/placers/sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "policy/optim/adam.h"
#include "policy/placers/registry.h"
#include "policy/training/trainer.h"
#include "tests/policy/differences.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {
namespace {

struct SequenceWorld : testing::SampleTask {
  explicit SequenceWorld(std::uint64_t seed = 3, std::uint32_t ops = 24, std::size_t groups = 5)
      : SequenceWorld{testing::random_graph(seed, ops)} {
    grouping = random_groups(graph, groups, seed);
  }
  explicit SequenceWorld(OpGraph ops, Grouping groups = {})
      : SampleTask{std::move(ops), testing::sample_devices(2, true, 1 << 30)},  // cpu:0, gpu:0, gpu:1
        grouping{std::move(groups)} {}
  std::unique_ptr<SequencePlacer> placer(SequenceOptions options, std::uint64_t seed = 1,
                                         SequenceInitial start = {}) const {
    return *SequencePlacer::make({{{&graph, &devices, &constraints}, grouping, std::move(start)}}, options,
                                 seed);
  }
  Grouping grouping;
};

SequenceOptions small_sequence(SequenceOptions options) {
  options.network.hidden = 5;
  options.embedding = 3;
  options.placements = 3;
  options.noise = 0;
  return options;
}

/// Compares d loss / d parameter by central differences with accumulate_gradient().
void expect_gradient_of_loss(SequencePlacer& placer, const std::vector<ScoredEpisode>& batch,
                             int checks = 250) {
  ParameterStore& store = placer.parameters();
  const auto loss = [&] { return placer.accumulate_gradient(batch)->loss; };
  store.clear_gradients();
  ASSERT_TRUE(placer.accumulate_gradient(batch).ok());
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  Rng rng{4, Purpose::kTest};
  constexpr float kStep = 4e-3f;
  float largest = 0;
  for (int check = 0; check < checks; ++check) {
    // The tunable embeddings are first in the store.
    const std::size_t i =
        check < 30 ? static_cast<std::size_t>(check) : rng.below(static_cast<std::uint32_t>(store.size()));
    const auto numeric = static_cast<float>(central_difference(loss, store.values()[i], kStep));
    EXPECT_NEAR(analytic[i], numeric, 4e-3f * std::max(1.0f, std::abs(numeric))) << "parameter " << i;
    largest = std::max(largest, std::abs(numeric));
  }
  EXPECT_GT(largest, 0.01f) << "nothing flowed: the check would prove nothing";
}

/// Draws the batch and then changes the parameters, so that ratios are not 1.
std::vector<ScoredEpisode> stale_batch(SequencePlacer& placer, float reach) {
  const std::vector<ScoredEpisode> batch{{placer.sample(0, 0), {0.5f, -1.0f, 0.25f}},
                                         {placer.sample(1, 0), {1.0f, 2.0f, -0.5f}}};
  Rng rng{8, Purpose::kTest};
  for (float& value : placer.parameters().values()) value += reach * (2 * rng.uniform() - 1);
  return batch;
}

TEST(Sequence, SamplingDependsOnParametersSeedAndEpisodeAlone) {
  const SequenceWorld world;
  const auto a = world.placer(small_sequence(colocrl_options())),
             b = world.placer(small_sequence(colocrl_options()));
  EXPECT_EQ(a->sample(7, 0).bytes, b->sample(7, 0).bytes);
  EXPECT_NE(a->sample(7, 0).bytes, a->sample(8, 0).bytes);
  EXPECT_NE(a->sample(7, 0).bytes, world.placer(small_sequence(colocrl_options()), 2)->sample(7, 0).bytes);
}

TEST(Sequence, BitsDoNotDependOnTheNumberOfThreads) {
  const SequenceWorld world;
  for (SequenceOptions options : {colocrl_options(), spotlight_options(), random_grouping_options()}) {
    options = small_sequence(options);
    options.placements = 6;
    options.network.out = Init::kGlorot;
    const auto one = world.placer(options);
    options.threads = 3;
    const auto three = world.placer(options);
    for (std::uint64_t e = 0; e < 5; ++e) {
      const ScoredEpisode episode{one->sample(e, 0), {1, -1, 0.5f, 2, -0.25f, 0}};
      ASSERT_EQ(episode.actions.bytes, three->sample(e, 0).bytes);
      for (SequencePlacer* placer : {one.get(), three.get()}) {
        placer->parameters().clear_gradients();
        ASSERT_TRUE(placer->accumulate_gradient({&episode, 1}).ok());
        Adam adam;
        adam.step(placer->parameters(), 0.01f);
      }
      ASSERT_EQ(one->parameters().sha256(), three->parameters().sha256());
    }
  }
}

TEST(Sequence, RandomGroupingStartsItsDecoderFromTheEncoderIfConfigured) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(random_grouping_options());
  const auto zero = world.placer(options);
  options.network.start_from_encoder = true;
  const auto started = world.placer(options);
  const std::size_t added = 2 * (5 * 10 + 5);
  ASSERT_EQ(started->parameters().size(), zero->parameters().size() + added);
  const Actions actions = zero->sample(0, 0);
  const auto at_zero = *zero->log_probabilities(actions);
  EXPECT_NE(*started->log_probabilities(actions), at_zero);
  for (float& value : started->parameters().values().last(added)) value = 0;
  EXPECT_EQ(*started->log_probabilities(actions), at_zero);
  const auto learning = world.placer(options);
  expect_gradient_of_loss(*learning, stale_batch(*learning, 0.1f));
}

TEST(Sequence, ShuffledOrderPlacesTheSameGroups) {
  const SequenceWorld world;
  PolicyOptions options;
  options.method = "random-grouping";
  options.order = GroupOrder::kShuffled;
  options.sequence.network.hidden = 5;
  const auto made = make_placer(
      options,
      {{{&world.graph, &world.devices, &world.constraints}, [&] { return world.grouping; }, nullptr}}, 1);
  ASSERT_TRUE(made.ok()) << made.error().context;
  auto& placer = dynamic_cast<SequencePlacer&>(**made);
  const auto place = group_places(GroupOrder::kShuffled, 5, 1);
  const Actions actions = placer.sample(0, 0);
  const Decisions decisions = *placer.decode_actions(actions);
  const auto placements = *placer.expand(actions);
  for (std::size_t p = 0; p < placements.size(); ++p) {
    for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
      EXPECT_EQ(index(placements[p][op]), decisions.devices[p * 5 + place[world.grouping.group_of_op[op]]]);
    }
  }
}

// Ten ascent steps on one batch are ten times parameters -= rate · gradient, each of the parameters before
// it.
TEST(Sequence, SgdUpdateIsPlainSteps) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(spotlight_options());
  options.network.attention = Attention::kDot;
  options.network.table_scale = 1;  // Relative to the learning rate of the other parameters.
  TrainerOptions training;
  training.optimizer = Optimizer::kSgd;
  training.steps_per_update = 10;
  training.learning_rate.start = 0.05f;
  training.adam.clip_norm = 0;
  Trainer trainer{training, world.placer(options)};
  const auto by_hand = world.placer(options);
  const ScoredEpisode episode{by_hand->sample(0, 0), {0.5f, -1.0f, 0.25f}};
  ASSERT_EQ(trainer.update({&episode, 1}).error, "");
  for (int step = 0; step < 10; ++step) {
    by_hand->parameters().clear_gradients();
    const LossParts parts = *by_hand->accumulate_gradient({&episode, 1});
    const auto gradients = by_hand->parameters().gradients();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      by_hand->parameters().values()[i] -= 0.05f * gradients[i];
    if (step == 9) by_hand->end_update(parts);
  }
  double furthest = 0;
  for (std::size_t i = 0; i < by_hand->parameters().size(); ++i)
    furthest = std::max(furthest, static_cast<double>(std::abs(trainer.parameters().values()[i] -
                                                               by_hand->parameters().values()[i])));
  EXPECT_LT(furthest, 1e-6);
  Trainer resumed{training, world.placer(options)};
  ASSERT_TRUE(
      resumed.load(trainer.parameters().bytes(), trainer.optimizer(), trainer.parameters().sha256(), 1).ok());
  ASSERT_EQ(trainer.update({&episode, 1}).error, "");
  ASSERT_EQ(resumed.update({&episode, 1}).error, "");
  EXPECT_EQ(trainer.parameters().sha256(), resumed.parameters().sha256());
}

TEST(Sequence, PlacementsObeyTheConstraintsAndFollowTheGroups) {
  const SequenceWorld world;
  for (const SequenceOptions& options : {colocrl_options(), spotlight_options(), random_grouping_options()}) {
    const auto placer = world.placer(small_sequence(options));
    const auto actions = placer->sample(0, 0);
    const auto decisions = *placer->decode_actions(actions);
    const auto placements = *placer->expand(actions);
    ASSERT_EQ(placements.size(), 3u);
    for (std::size_t p = 0; p < placements.size(); ++p) {
      EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placements[p]).ok());
      for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
        EXPECT_EQ(index(placements[p][op]),
                  decisions.devices[p * world.grouping.num_groups + world.grouping.group_of_op[op]]);
      }
    }
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placer->greedy()).ok());
  }
}

TEST(Sequence, SpotlightStartsFromUniformDistributions) {
  const SequenceWorld world;
  const auto placer = world.placer(small_sequence(spotlight_options()));
  const Decisions drawn = *placer->decode_actions(placer->sample(0, 0));
  for (const float log_q : drawn.log_q) EXPECT_NEAR(log_q, std::log(1.0f / 3), 1e-5f);
}

TEST(Sequence, GradientsOfEveryObjectiveReachEveryNetwork) {
  const SequenceWorld world;
  LossOptions weighted, kl, clipped;
  weighted.max_weight = 5;
  weighted.entropy = 0.3f;
  kl.kind = LossKind::kKlPenalised;
  kl.beta = 0.7f;
  kl.entropy = 0.1f;
  clipped.kind = LossKind::kClippedRatio;
  clipped.clip = 0.5f;
  for (const LossOptions& loss : {LossOptions{}, kl, clipped}) {
    for (SequenceOptions options : {colocrl_options(), spotlight_options(), random_grouping_options()}) {
      SCOPED_TRACE(std::string{word_of(loss.kind)} + " " + std::string{word_of(options.input)});
      options.loss = loss;
      options.network.table_scale = 1;
      options.network.out = Init::kGlorot;
      options.network.sees_group = true;
      const auto placer = world.placer(small_sequence(options));
      expect_gradient_of_loss(*placer, stale_batch(*placer, 0.02f), 150);
    }
  }
}

// A truncated weight is a constant of the loss, so its gradient is compared with that of plain REINFORCE with
// advantages that are weighted by hand.
TEST(Sequence, TruncatedWeightsScaleEachPlacementsGradient) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(colocrl_options());
  options.loss.max_weight = 1.2f;
  const auto weighing = world.placer(options);
  auto batch = stale_batch(*weighing, 0.05f);
  weighing->parameters().clear_gradients();
  ASSERT_TRUE(weighing->accumulate_gradient(batch).ok());
  const std::vector<float> weighed(weighing->parameters().gradients().begin(),
                                   weighing->parameters().gradients().end());

  options.loss = {};
  const auto plain = world.placer(options);
  ASSERT_TRUE(plain->parameters().load(weighing->parameters().bytes()).ok());
  int truncated = 0, free = 0;
  for (ScoredEpisode& episode : batch) {
    const Decisions drawn = *weighing->decode_actions(episode.actions);
    for (std::size_t p = 0; p < 3; ++p) {
      const std::size_t groups = plain->groups();
      Decisions one{{drawn.devices.begin() + static_cast<std::ptrdiff_t>(p * groups),
                     drawn.devices.begin() + static_cast<std::ptrdiff_t>((p + 1) * groups)},
                    {}};
      double log_q = 0;
      for (std::size_t n = p * groups; n < (p + 1) * groups; ++n)
        log_q += drawn.log_q[n * 3 + drawn.devices[n]];
      const ScoredEpisode alone{plain->encode_actions(0, one), {0.0f}};
      const double log_p = plain->accumulate_gradient({&alone, 1})->log_probability;
      const double weight = std::min(std::exp(log_p - log_q), 1.2);
      (weight == 1.2 ? truncated : free) += 1;
      episode.advantages[p] *= static_cast<float>(weight);
    }
  }
  EXPECT_GT(truncated, 0);
  EXPECT_GT(free, 0);
  plain->parameters().clear_gradients();
  ASSERT_TRUE(plain->accumulate_gradient(batch).ok());
  for (std::size_t i = 0; i < weighed.size(); ++i)
    EXPECT_NEAR(weighed[i], plain->parameters().gradients()[i], 2e-5f) << "parameter " << i;
}

TEST(Sequence, Eq15AtRatioOneIsReinforceOverTheStages) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(spotlight_options());
  options.network.out = Init::kGlorot;
  const auto spotlight = world.placer(options);
  options.loss = {};
  const auto reinforce = world.placer(options);
  const std::vector<ScoredEpisode> batch = stale_batch(*spotlight, 0);  // Drawn by this policy.
  for (SequencePlacer* placer : {spotlight.get(), reinforce.get()}) {
    placer->parameters().clear_gradients();
    ASSERT_TRUE(placer->accumulate_gradient(batch).ok());
  }
  const auto ours = spotlight->parameters().gradients(), theirs = reinforce->parameters().gradients();
  ASSERT_EQ(ours.size(), theirs.size() + 1) << "beta";
  const auto stages = static_cast<float>(spotlight->groups());
  float largest = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i] / stages, 1e-6f);
    largest = std::max(largest, std::abs(theirs[i]));
  }
  EXPECT_GT(largest, 0.05f);
}

TEST(Sequence, EqualPoliciesHaveNoDivergenceAndNoGradient) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(spotlight_options());
  options.network.out = Init::kGlorot;
  options.loss.beta = 100;
  const auto placer = world.placer(options);
  const ScoredEpisode episode{placer->sample(0, 0), {0, 0, 0}};
  placer->parameters().clear_gradients();
  const LossParts parts = *placer->accumulate_gradient({&episode, 1});
  EXPECT_NEAR(parts.divergence, 0, 1e-6);
  for (const float gradient : placer->parameters().gradients()) EXPECT_NEAR(gradient, 0, 2e-5f);
}

TEST(Sequence, ClippedObjectiveHasNoGradientBeyondItsLimit) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(colocrl_options());
  options.loss.kind = LossKind::kClippedRatio;
  options.loss.clip = 0.1f;
  const auto placer = world.placer(options);
  const ScoredEpisode episode{placer->sample(0, 0), {-1, -1, -1}};  // Better than expected: ratios rise.
  Adam adam;
  int steps = 0;
  float norm = 1;
  for (; steps < 400 && norm > 0; ++steps) {
    placer->parameters().clear_gradients();
    ASSERT_TRUE(placer->accumulate_gradient({&episode, 1}).ok());
    norm = 0;
    for (const float gradient : placer->parameters().gradients()) norm += gradient * gradient;
    if (norm > 0) adam.step(placer->parameters(), 1e-3f);
  }
  EXPECT_EQ(norm, 0.0f) << "all ratios beyond 1 + c: no gradient is left";
  const Decisions drawn = *placer->decode_actions(episode.actions);
  options.loss = {};
  const auto now = world.placer(options);
  ASSERT_TRUE(now->parameters().load(placer->parameters().bytes()).ok());
  double log_q = 0;
  for (std::size_t n = 0; n < drawn.devices.size(); ++n) log_q += drawn.log_q[n * 3 + drawn.devices[n]] / 3;
  const ScoredEpisode same{now->encode_actions(0, {drawn.devices, {}}), {0, 0, 0}};
  const double mean_log_ratio =
      (now->accumulate_gradient({&same, 1})->log_probability - log_q) / static_cast<double>(now->groups());
  EXPECT_GT(mean_log_ratio, std::log(1.1));
  EXPECT_LT(mean_log_ratio, std::log(1.5)) << "and hardly further";
}

// All 2^6 placements of six ops on two devices, each with its probability and a cost, give the exact gradient
// of the expected cost. It must be the mean of the gradient of one drawn placement.
TEST(Sequence, GradientOfSamplesIsExactInTheMean) {
  std::vector<testing::SampleOp> ops;
  for (std::uint32_t i = 0; i < 6; ++i) {
    testing::SampleOp op{.name = "op" + std::to_string(i)};
    if (i > 0) op.inputs = {{i - 1, 0}};
    op.type = i % 2 == 0 ? "Left" : "Right";
    ops.push_back(op);
  }
  const OpGraph graph = testing::sample_graph(ops);
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 30);
  const Constraints constraints = *Constraints::make(graph, devices);
  Grouping alone;
  for (std::uint32_t i = 0; i < 6; ++i) alone.group_of_op.push_back(i);
  alone.num_groups = 6;
  SequenceOptions options = small_sequence(colocrl_options());
  options.placements = 1;
  options.network.hidden = 4;
  const auto placer = *SequencePlacer::make({{{&graph, &devices, &constraints}, alone, {}}}, options, 1);
  // A cost that depends on neighbours, so that no op can be judged alone.
  const auto cost = [](const std::vector<std::uint8_t>& device) {
    float total = 0;
    for (std::size_t i = 0; i < 6; ++i)
      total += (i > 0 && device[i] != device[i - 1] ? 1.0f : 0.0f) + (device[i] == 0 ? 0.3f : 0.0f);
    return total;
  };
  ParameterStore& store = placer->parameters();
  const auto gradient = [&](const std::vector<std::uint8_t>& device, float advantage, double* log_p) {
    const ScoredEpisode episode{placer->encode_actions(0, {device, {}}), {advantage}};
    store.clear_gradients();
    const LossParts parts = *placer->accumulate_gradient({&episode, 1});
    if (log_p != nullptr) *log_p = parts.log_probability;
    return std::vector<float>(store.gradients().begin(), store.gradients().end());
  };
  std::vector<double> exact(store.size(), 0);
  double mass = 0;
  for (std::uint32_t bits = 0; bits < 64; ++bits) {
    std::vector<std::uint8_t> device;
    for (std::uint32_t i = 0; i < 6; ++i) device.push_back(static_cast<std::uint8_t>(bits >> i & 1));
    double log_p = 0;
    const auto of_this = gradient(device, cost(device), &log_p);
    mass += std::exp(log_p);
    for (std::size_t i = 0; i < exact.size(); ++i)
      exact[i] += std::exp(log_p) * static_cast<double>(of_this[i]);
  }
  EXPECT_NEAR(mass, 1, 1e-5) << "the probabilities of all placements";

  constexpr int kSamples = 3000;
  constexpr float kBaseline = 3;  // A constant does not change the mean.
  // Along three fixed directions through all parameters.
  for (std::uint64_t direction = 0; direction < 3; ++direction) {
    Rng rng{direction, Purpose::kTest};
    std::vector<double> along;
    for (std::size_t i = 0; i < store.size(); ++i) along.push_back(2 * rng.uniform_double() - 1);
    double truth = 0, sum = 0, square = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) truth += exact[i] * along[i];
    for (std::uint64_t s = 0; s < kSamples; ++s) {
      const auto device = placer->decode_actions(placer->sample(direction * kSamples + s, 0))->devices;
      const auto of_this = gradient(device, cost(device) - kBaseline, nullptr);
      double slope = 0;
      for (std::size_t i = 0; i < of_this.size(); ++i) slope += static_cast<double>(of_this[i]) * along[i];
      sum += slope;
      square += slope * slope;
    }
    const double mean = sum / kSamples, error = std::sqrt((square / kSamples - mean * mean) / kSamples);
    EXPECT_NEAR(mean, truth, 3 * error) << "direction " << direction;
    EXPECT_LT(error, 0.2 * std::abs(truth) + 0.05) << "the test is precise enough";
  }
}

TEST(Sequence, BetaIsSavedHashedAndFollowsItsTarget) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(spotlight_options());
  options.loss.kl_target = 0.01f;
  const auto placer = world.placer(options);
  const std::string before = placer->parameters().sha256();
  LossParts parts;
  parts.divergence = 1;
  placer->end_update(parts);
  EXPECT_NE(placer->parameters().sha256(), before);
  EXPECT_EQ(placer->parameters().values().back(), 2.0f) << "doubled";
  const auto resumed = world.placer(options);
  ASSERT_TRUE(resumed->parameters().load(placer->parameters().bytes()).ok());
  parts.divergence = 0.01;
  resumed->end_update(parts);
  EXPECT_EQ(resumed->parameters().values().back(), 2.0f) << "kept";
  const ScoredEpisode episode{resumed->sample(0, 0), {1, -1, 1}};
  resumed->parameters().clear_gradients();
  ASSERT_TRUE(resumed->accumulate_gradient({&episode, 1}).ok());
  Adam adam;
  adam.step(resumed->parameters(), 0.1f);
  EXPECT_EQ(resumed->parameters().values().back(), 2.0f) << "it is not learned";
}

TEST(Sequence, EntropyFollowsItsSchedule) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(colocrl_options());
  options.loss.entropy = 1;
  options.entropy_end = 0;
  options.entropy_over = 10;
  const auto placer = world.placer(options);
  const ScoredEpisode episode{placer->sample(0, 0), {0, 0, 0}};
  const auto loss = [&] { return placer->accumulate_gradient({&episode, 1})->loss; };
  placer->start_update(0);
  const double whole = loss();
  EXPECT_LT(whole, -1);
  placer->start_update(5);
  EXPECT_NEAR(loss(), whole / 2, 1e-5);
  placer->start_update(1000);
  EXPECT_EQ(loss(), 0);
}

TEST(Sequence, LearnsToRepeatAPlacement) {
  const SequenceWorld world;
  const auto placer = world.placer(small_sequence(colocrl_options()));
  Placement wanted;
  for (const std::uint32_t group : world.grouping.group_of_op)
    wanted.push_back(static_cast<DeviceId>(group % 3));
  world.constraints.repair(wanted);
  const auto probability =
      imitate(*placer, {.placement = wanted, .probability = 0.95, .learning_rate = 0.02f});
  ASSERT_TRUE(probability.ok());
  EXPECT_GE(*probability, 0.95);
  EXPECT_EQ(placer->greedy(), wanted);
  EXPECT_FALSE(imitate(*placer, {.placement = Placement(3)}).ok());
}

TEST(Sequence, GroupsAreOnlyPlacedWhereAllTheirOpsMayRun) {
  Grouping grouping;
  for (std::uint32_t i = 0; i < 12; ++i) grouping.group_of_op.push_back(i % 4);
  grouping.num_groups = 4;
  const SequenceWorld world{testing::restricted_graph(), std::move(grouping)};
  for (const SequenceOptions& options : {colocrl_options(), spotlight_options()}) {
    const auto placer = world.placer(small_sequence(options));
    int elsewhere = 0;
    for (std::uint64_t e = 0; e < 20; ++e) {
      const auto decisions = *placer->decode_actions(placer->sample(e, 0));
      for (std::size_t p = 0; p < 3; ++p) {
        EXPECT_EQ(decisions.devices[p * 4], 2);
        elsewhere += decisions.devices[p * 4 + 1] != 2 ? 1 : 0;
      }
    }
    EXPECT_GT(elsewhere, 10) << "the other groups are free";
    const ScoredEpisode drawn{placer->sample(0, 0), {1, -1, 1}};
    placer->parameters().clear_gradients();
    const auto parts = placer->accumulate_gradient({&drawn, 1});
    ASSERT_TRUE(parts.ok());
    EXPECT_TRUE(std::isfinite(parts->loss));
    for (const float gradient : placer->parameters().gradients()) ASSERT_TRUE(std::isfinite(gradient));
    auto forbidden = *placer->decode_actions(placer->sample(0, 0));
    forbidden.devices[0] = 0;
    for (float& log_q : forbidden.log_q) log_q = -1;
    const ScoredEpisode episode{placer->encode_actions(0, forbidden), {1, 1, 1}};
    EXPECT_FALSE(placer->accumulate_gradient({&episode, 1}).ok());
  }
}

TEST(Sequence, WarmStartedPolicyMostlyRepeatsItsStart) {
  const SequenceWorld world;
  SequenceOptions options = small_sequence(colocrl_options());
  options.network.table_scale = 1;
  options.network.start_probability = 0.95f;
  options.network.out = Init::kZero;
  SequenceInitial start;
  for (const std::uint32_t group : world.grouping.group_of_op)
    start.placement.push_back(static_cast<DeviceId>(group % 3));
  world.constraints.repair(start.placement);
  const auto placer = world.placer(options, 1, start);
  std::size_t repeated = 0, all = 0;
  for (std::uint64_t e = 0; e < 50; ++e) {
    for (const Placement& placement : *placer->expand(placer->sample(e, 0))) {
      for (std::size_t op = 0; op < placement.size(); ++op) repeated += placement[op] == start.placement[op];
      all += placement.size();
    }
  }
  EXPECT_GT(repeated, all * 9 / 10);
}

TEST(Sequence, RefusesActionsOfOthersAndImpossibleNumbers) {
  const SequenceWorld world, other{9, 30, 7};
  const auto placer = world.placer(small_sequence(colocrl_options()));
  EXPECT_FALSE(placer->expand(other.placer(small_sequence(colocrl_options()))->sample(0, 0)).ok());
  EXPECT_FALSE(placer->expand({Bytes(3)}).ok());
  Actions damaged = placer->sample(0, 0);
  damaged.bytes.back() = std::byte{200};
  EXPECT_FALSE(placer->expand(damaged).ok());
  const ScoredEpisode short_of_advantages{placer->sample(0, 0), {1}};
  EXPECT_FALSE(placer->accumulate_gradient({&short_of_advantages, 1}).ok());

  const auto refusal = [&](const std::function<void(SequenceOptions&)>& spoil) {
    SequenceOptions options = small_sequence(colocrl_options());
    spoil(options);
    const auto made = SequencePlacer::make(
        {{{&world.graph, &world.devices, &world.constraints}, world.grouping, {}}}, options, 1);
    return made.ok() ? std::string{} : made.error().context;
  };
  EXPECT_NE(refusal([](auto& o) { o.network.layers = 0; }).find("layers = 0: expected 1 to 8"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.network.hidden = 0; }).find("hidden = 0"), std::string::npos);
  EXPECT_NE(
      refusal([](auto& o) { o.network.tanh_constant = -1; }).find("tanh_constant = -1.0: expected 0 to 1000"),
      std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.loss.clip = 2; }).find("clip = 2.0: expected 0.001 to 0.999"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.loss.beta = -1; }).find("beta = -1.0"), std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.placements = 0; }).find("placements = 0"), std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.embedding = 0; }).find("embedding = 0"), std::string::npos);
  const auto of_another_graph =
      SequencePlacer::make({{{&world.graph, &world.devices, &world.constraints}, other.grouping, {}}},
                           small_sequence(colocrl_options()), 1);
  EXPECT_FALSE(of_another_graph.ok());
}

TEST(Sequence, InputsAreNamed) {
  for (const GroupInput input : {GroupInput::kTypes, GroupInput::kNames, GroupInput::kCounts})
    EXPECT_EQ(*parse_word<GroupInput>(word_of(input)), input);
  EXPECT_FALSE(parse_word<GroupInput>("shapes").ok());
}

}  // namespace
}  // namespace emplace::policy
