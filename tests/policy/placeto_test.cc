// Goal: Placeto's episodes match the paper, it is reproducible and refuses actions of others. Method:
// serialisation and determinism on random graphs; the gradient against finite differences of the loss.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "policy/features.h"
#include "policy/optim/adam.h"
#include "tests/policy/placeto_world.h"

namespace emplace::policy {
namespace {

using World = PlacetoWorld;

TEST(Placeto, EpisodeVisitsEveryGroupInEveryRound) {
  const World world = random_world();
  for (const Traversal traversal : {Traversal::kTopological, Traversal::kReversed, Traversal::kRandom}) {
    PlacetoOptions options = small_options();
    options.rounds_per_episode = 3;
    options.traversal = traversal;
    options.start = InitialPlacement::kRandom;
    const auto placer = placer_of(world, options);
    const GroupGraph& nodes = placer->group_graph(0);
    EXPECT_EQ(placer->placements_per_episode(), 3 * nodes.size());
    const auto choice = *placer->decode_actions(placer->sample(5, 0));
    ASSERT_EQ(choice.node.size(), 3 * nodes.size());
    std::vector<int> visits(nodes.size());
    for (const std::uint16_t node : choice.node) ++visits[node];
    for (const int count : visits) EXPECT_EQ(count, 3);
    const bool in_order = std::equal(nodes.order().begin(), nodes.order().end(), choice.node.begin());
    EXPECT_EQ(in_order, traversal == Traversal::kTopological) << word_of(traversal);
    EXPECT_EQ(*parse_word<Traversal>(word_of(traversal)), traversal);
  }
  EXPECT_FALSE(parse_word<Traversal>("sideways").ok());
}

// Paper: Placeto 2019, section 4.3.
TEST(Placeto, EpisodesFollowOnlyTheFixedOrders) {
  const World worlds[] = {random_world(3), random_world(5, 17)};
  PlacetoOptions options = small_options();
  options.rounds_per_episode = 2;
  options.traversal = Traversal::kRandom;
  options.orders = 4;
  using Order = std::vector<std::uint16_t>;
  const auto orders_of = [&](std::uint64_t seed) {
    const auto placer = *PlacetoPlacer::make({worlds[0].view(), worlds[1].view()}, options, seed);
    std::vector<std::map<Order, int>> episodes(2);
    for (std::uint64_t episode = 0; episode < 24; ++episode) {
      const auto choice = *placer->decode_actions(placer->sample(episode, 0));
      const auto middle = choice.node.begin() + static_cast<std::ptrdiff_t>(choice.node.size() / 2);
      const Order first{choice.node.begin(), middle}, second{middle, choice.node.end()};
      EXPECT_EQ(first, second) << "one order per episode";
      ++episodes[choice.graph][first];
    }
    return episodes;
  };
  const auto episodes = orders_of(1);
  for (std::size_t graph = 0; graph < 2; ++graph) {
    ASSERT_EQ(episodes[graph].size(), 4u);
    for (const auto& [order, times] : episodes[graph]) EXPECT_EQ(times, 3) << "in turn";
    for (std::uint64_t number = 0; number < 64; ++number)
      EXPECT_FALSE(episodes[graph].contains(unseen_order(episodes[graph].begin()->first.size(), number)));
  }
  EXPECT_NE(orders_of(2), episodes);
  options.order_seed = 2;
  const auto other_seed = orders_of(1);
  options.order_seed = 0;
  EXPECT_EQ(other_seed, orders_of(2));
}

TEST(Placeto, LikeliestPlacementInAnUnseenOrderVisitsInThatOrder) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.rounds_per_episode = 2;
  options.traversal = Traversal::kReversed;
  options.network.means = true;  // Sums saturate, and the likeliest device would be the same in any state.
  const auto usual = placer_of(world, options);
  const std::size_t groups = usual->group_graph(0).size();
  Rng rng{11, Purpose::kTest};
  std::set<std::vector<std::uint16_t>> orders;
  int different = 0;
  for (std::uint64_t number = 0; number < 10; ++number) {
    for (float& value : usual->parameters().values()) value = rng.normal();
    options.unseen_order = number;
    const auto placer = placer_of(world, options);
    ASSERT_TRUE(placer->parameters().load(usual->parameters().bytes()).ok());
    // The likeliest device at each step of that order, given the steps before.
    const std::vector<std::uint16_t> order = unseen_order(groups, number);
    orders.insert(order);
    PlacetoPlacer::Choice choice = *placer->decode_actions(placer->sample(0, 0));
    choice.decisions.devices.assign(2 * groups, 0);
    for (std::size_t t = 0; t < 2 * groups; ++t) choice.node[t] = order[t % groups];
    for (std::size_t t = 0; t < 2 * groups; ++t) {
      Eigen::Index device = 0;
      placer->log_probabilities(choice).col(static_cast<Eigen::Index>(t)).maxCoeff(&device);
      choice.decisions.devices[t] = static_cast<std::uint8_t>(device);
    }
    const Placement stepwise = placer->expand(PlacetoPlacer::encode_actions(choice))->back();
    EXPECT_EQ(placer->greedy(), stepwise) << "order " << number;
    different += stepwise != usual->greedy() ? 1 : 0;
  }
  EXPECT_EQ(orders.size(), 10u);
  EXPECT_GT(different, 0) << "another order, another placement";
}

TEST(Placeto, StepsArePlacementsThatDifferInOneGroup) {
  const World world = random_world();
  const auto placer = placer_of(world, small_options());
  const Actions actions = placer->sample(0, 0);
  const auto choice = *placer->decode_actions(actions);
  const auto placements = *placer->expand(actions);
  ASSERT_EQ(placements.size(), choice.node.size());
  const Grouping grouping = world.view().grouping;
  for (std::size_t t = 0; t < placements.size(); ++t) {
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placements[t]).ok());
    for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
      if (grouping.group_of_op[op] == choice.node[t]) {
        EXPECT_EQ(index(placements[t][op]), choice.decisions.devices[t]);
      } else if (t > 0) {
        EXPECT_EQ(placements[t][op], placements[t - 1][op]);
      }
    }
  }
  EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placer->greedy()).ok());
}

// Features are relative to the graph's largest, so a graph on a machine with faster links looks the same; by
// the transfer ratio it does not.
TEST(Placeto, TransferRatioDistinguishesComputationFromCommunication) {
  const World world = random_world();
  const auto log_p = [&](bool ratio, double link_bytes_per_s) {
    PlacetoOptions options = small_options();
    options.transfer_ratio = ratio;
    const DeviceSet devices = testing::sample_devices(world.devices.size(), false, std::int64_t{1} << 30,
                                                      {.bytes_per_s = link_bytes_per_s});
    PlacetoGraph view = world.view();
    view.devices = &devices;
    const auto placer = *PlacetoPlacer::make({std::move(view)}, options, 1);
    shake(*placer);
    return *placer->log_probabilities(placer->sample(0, 0));
  };
  EXPECT_EQ(log_p(false, 1e9), log_p(false, 4e9));
  EXPECT_NE(log_p(true, 1e9), log_p(true, 4e9));
}

TEST(Placeto, SamplingDependsOnParametersSeedAndEpisodeAlone) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.start = InitialPlacement::kRandom;
  options.traversal = Traversal::kRandom;
  const auto a = placer_of(world, options), b = placer_of(world, options);
  EXPECT_EQ(a->sample(7, 0).bytes, b->sample(7, 0).bytes);
  EXPECT_NE(a->sample(7, 0).bytes, a->sample(8, 0).bytes);
  EXPECT_NE(a->sample(7, 0).bytes, placer_of(world, options, 2)->sample(7, 0).bytes);
}

TEST(Placeto, DrawsAreReplayedBitForBit) {
  const World world = random_world(5, 60);
  PlacetoOptions options;
  options.loss.kind = LossKind::kKlPenalised;
  options.rounds_per_episode = 6;  // More steps than one trace keeps.
  options.start = InitialPlacement::kRandom;
  const auto placer = placer_of(world, options);
  shake(*placer, 0.02f);
  const Actions actions = placer->sample(2, 0);
  const auto choice = *placer->decode_actions(actions);
  ASSERT_GT(choice.node.size(), 256u);
  const Matrix replayed = placer->log_probabilities(choice);
  ASSERT_EQ(choice.decisions.log_q.size(), static_cast<std::size_t>(replayed.size()));
  EXPECT_EQ(0, std::memcmp(choice.decisions.log_q.data(), replayed.data(),
                           sizeof(float) * choice.decisions.log_q.size()));
  // A policy does not diverge from itself, to the last bit.
  const ScoredEpisode episode{actions, std::vector<float>(choice.node.size(), 1.0f)};
  const auto parts = placer->accumulate_gradient({&episode, 1});
  EXPECT_EQ(parts->divergence, 0);
  EXPECT_NEAR(parts->loss, 1, 1e-6) << "all ratios are 1";
}

std::vector<ScoredEpisode> draw_batch(const PlacetoPlacer& placer, std::uint64_t episodes) {
  std::vector<ScoredEpisode> batch;
  Rng rng{2, Purpose::kTest};
  for (std::uint64_t e = 0; e < episodes; ++e) {
    batch.push_back({placer.sample(e, 0), {}});
    for (std::size_t t = placer.expand(batch.back().actions)->size(); t > 0; --t)
      batch.back().advantages.push_back(0.3f * rng.normal());
  }
  return batch;
}

/// Compares central differences of the loss of `batch` with accumulate_gradient().
void expect_gradient_of_loss(PlacetoPlacer& placer, std::span<const ScoredEpisode> batch, int checks) {
  ParameterStore& store = placer.parameters();
  store.clear_gradients();
  ASSERT_TRUE(placer.accumulate_gradient(batch).ok());
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  const auto loss = [&] { return placer.accumulate_gradient(batch)->loss; };
  Rng rng{4, Purpose::kTest};
  int wrong = 0;
  double largest = 0;
  for (int check = 0; check < checks; ++check) {
    const std::size_t i = rng.below(static_cast<std::uint32_t>(store.size()));
    constexpr float kStep = 1e-3f;
    const double here = loss();
    const float kept = store.values()[i];
    store.values()[i] = kept + kStep;
    const double above = loss();
    store.values()[i] = kept - kStep;
    const double below = loss();
    store.values()[i] = kept;
    const double numeric = (above - below) / (2.0 * static_cast<double>(kStep)),
                 kink = std::abs(above - 2 * here + below) / (2.0 * static_cast<double>(kStep));
    if (std::abs(analytic[i] - numeric) > kink + 2e-2 * std::max(1.0, std::abs(numeric))) ++wrong;
    largest = std::max(largest, std::abs(numeric));
  }
  EXPECT_LE(wrong, checks / 30) << "several kinks within a step, seldom";
  EXPECT_GT(largest, 0.1);
}

TEST(Placeto, GradientIsThatOfTheObjectivesLossOverManyGraphs) {
  const World world = random_world(), other = random_world(9, 16);
  for (const LossKind kind : {LossKind::kReinforce, LossKind::kKlPenalised}) {
    PlacetoOptions options = small_options();
    options.loss.kind = kind;
    options.loss.entropy = 0.3f;
    options.network.logit_bound = 4;
    options.network.stay = 1.5f;
    options.network.means = kind == LossKind::kReinforce;
    const auto placer = *PlacetoPlacer::make({world.view(), other.view()}, options, 1);
    shake(*placer);
    const auto batch = draw_batch(*placer, 3);
    shake(*placer, 0.02f);  // Differs from the policy that drew them.
    expect_gradient_of_loss(*placer, batch, 150);
  }
}

TEST(Placeto, GradientOfAnEpisodeLongerThanOneTrace) {
  const World world = random_world(9, 40);
  PlacetoOptions options = small_options();
  options.rounds_per_episode = 8;
  const auto placer = placer_of(world, options);
  shake(*placer);
  const auto batch = draw_batch(*placer, 1);
  ASSERT_GT(batch[0].advantages.size(), 256u);
  expect_gradient_of_loss(*placer, batch, 20);
}

TEST(Placeto, AdaptiveBetaIsSavedAndContinuesWithTheSameBits) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.loss.kind = LossKind::kKlPenalised;
  const auto fixed = placer_of(world, options);
  options.loss.kl_target = 1e-4f;
  const auto whole = placer_of(world, options), resumed = placer_of(world, options);
  EXPECT_EQ(whole->parameters().size(), fixed->parameters().size() + 1) << "and without a target as ever";
  const auto update = [](PlacetoPlacer& placer, Adam& adam, std::span<const ScoredEpisode> batch) {
    placer.parameters().clear_gradients();
    const auto parts = placer.accumulate_gradient(batch);
    adam.step(placer.parameters(), 0.05f);
    placer.end_update(*parts);
    return *parts;
  };
  Adam adam, adam_resumed;
  const auto batch = draw_batch(*whole, 2);
  double furthest = 0;
  for (int step = 0; step < 4; ++step) furthest = std::max(furthest, update(*whole, adam, batch).divergence);
  ASSERT_GT(furthest, 1.5 * static_cast<double>(options.loss.kl_target)) << "beta has moved";
  ASSERT_TRUE(resumed->parameters().load(whole->parameters().bytes()).ok());
  ASSERT_TRUE(adam_resumed.load(adam.save(), resumed->parameters().size()).ok());
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(update(*whole, adam, batch).loss, update(*resumed, adam_resumed, batch).loss);
    EXPECT_EQ(whole->parameters().sha256(), resumed->parameters().sha256());
  }
}

TEST(Placeto, StayKeepsAnUntrainedPolicyInPlace) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.start = InitialPlacement::kRandom;
  for (const float stay : {0.0f, 2.0f, 60.0f}) {
    options.network.stay = stay;
    const auto placer = placer_of(world, options);
    const auto choice = *placer->decode_actions(placer->sample(4, 0));
    const Matrix log_p = placer->log_probabilities(choice);
    for (std::size_t t = 0; t < choice.node.size(); ++t) {
      const std::uint8_t here = choice.start[choice.node[t]];
      const float others = 2;  // The world has three devices.
      EXPECT_NEAR(std::exp(log_p(here, static_cast<Eigen::Index>(t))),
                  std::exp(stay) / (std::exp(stay) + others), 1e-5f);
      if (stay == 60) {
        EXPECT_EQ(choice.decisions.devices[t], here);
      }
    }
  }
  options.network.stay = -1;
  EXPECT_FALSE(PlacetoPlacer::make({world.view()}, options, 1).ok());
}

TEST(Placeto, EntropyWeightAndBetaFollowTheUpdates) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.loss.entropy = 2;
  options.entropy_end = 1;
  options.entropy_over = 100;
  const auto placer = placer_of(world, options);
  const Actions actions = placer->sample(0, 0);
  const ScoredEpisode episode{actions, std::vector<float>(placer->expand(actions)->size(), 0.0f)};
  const auto steps = static_cast<double>(episode.advantages.size());
  for (const auto& [update, weight] : {std::pair{0, 2.0}, {50, 1.5}, {100, 1.0}, {1000, 1.0}}) {
    placer->start_update(static_cast<std::uint64_t>(update));
    const auto parts = placer->accumulate_gradient({&episode, 1});
    EXPECT_NEAR(parts->loss, -weight * parts->entropy * steps, 1e-3) << "update " << update;
  }
}

TEST(Placeto, ParametersFitGraphsOfEverySize) {
  const World world = random_world(3, 24), other = random_world(4, 50);
  const auto a = placer_of(world, small_options(), 1), b = placer_of(other, small_options(), 2);
  EXPECT_NE(a->parameters().sha256(), b->parameters().sha256());
  ASSERT_TRUE(b->parameters().load(a->parameters().bytes()).ok());
  EXPECT_EQ(a->parameters().sha256(), b->parameters().sha256());
  EXPECT_TRUE(other.constraints.check(other.graph, other.devices, b->greedy()).ok());
  EXPECT_FALSE(b->parameters().load(Bytes(7)).ok());
}

TEST(Placeto, RefusesActionsOfOthers) {
  const World world = random_world(), other = random_world(9, 30);
  const auto placer = placer_of(world, small_options());
  const Actions good = placer->sample(0, 0);
  EXPECT_FALSE(placer->expand(placer_of(other, small_options())->sample(0, 0)).ok());
  for (std::size_t length = 0; length < good.bytes.size(); ++length)
    EXPECT_FALSE(
        placer->expand({Bytes(good.bytes.begin(), good.bytes.begin() + static_cast<long>(length))}).ok());
  // An episode with a flipped bit is either refused or another episode of this policy.
  for (std::size_t bit = 0; bit < 8 * good.bytes.size(); ++bit) {
    Actions damaged = good;
    damaged.bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
    const auto placements = placer->expand(damaged);
    if (placements.ok()) {
      EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placements->back()).ok());
    }
    EXPECT_LT(placer->graph_of(damaged), 1u);
  }
  EXPECT_EQ(placer->graph_of({}), 0u);
  auto twice = *placer->decode_actions(good);
  twice.node[1] = twice.node[0];
  EXPECT_FALSE(placer->expand(PlacetoPlacer::encode_actions(twice)).ok()) << "a group missed in a round";
  const ScoredEpisode short_one{good, {1.0f}};
  EXPECT_FALSE(placer->accumulate_gradient({&short_one, 1}).ok());
  PlacetoOptions ratio = small_options();
  ratio.loss.kind = LossKind::kClippedRatio;
  const ScoredEpisode undrawn{good, std::vector<float>(twice.node.size(), 1.0f)};
  EXPECT_FALSE(placer_of(world, ratio)->accumulate_gradient({&undrawn, 1}).ok()) << "log q is missing";
}

TEST(Placeto, NamesImpossibleOptions) {
  const World world = random_world(), other = random_world(9, 30);
  const auto error = [&](auto change) {
    std::vector<PlacetoGraph> graphs{world.view()};
    PlacetoOptions options = small_options();
    change(graphs, options);
    const auto made = PlacetoPlacer::make(std::move(graphs), options, 1);
    return made.ok() ? std::string{"made"} : made.error().context;
  };
  using Graphs = std::vector<PlacetoGraph>;
  EXPECT_NE(
      error([](Graphs&, auto& o) { o.network.embedding = 0; }).find("embedding = 0: expected 1 to 1024"),
      std::string::npos);
  EXPECT_NE(error([](Graphs&, auto& o) { o.network.rounds = 0; }).find("rounds = 0: expected 1 to 256"),
            std::string::npos);
  EXPECT_NE(error([](Graphs&, auto& o) { o.rounds_per_episode = 0; }).find("passes = 0: expected 1 to 256"),
            std::string::npos);
  EXPECT_NE(error([](Graphs& g, auto&) { g.clear(); }).find("at least one graph"), std::string::npos);
  EXPECT_NE(error([&](Graphs& g, auto&) { g[0].grouping = other.view().grouping; }).find("grouping"),
            std::string::npos);
  EXPECT_NE(error([](Graphs& g, auto&) { g[0].start = {DeviceId{0}}; }).find("graph 0"), std::string::npos);
}

TEST(Placeto, GroupsAreOnlyPlacedWhereAllTheirOpsMayRun) {
  const World world{testing::restricted_graph(), 2, true};  // cpu:0, gpu:0, gpu:1
  PlacetoOptions options = small_options();
  int elsewhere = 0;
  for (std::uint64_t e = 0; e < 20; ++e) {
    options.start = e % 2 == 0 ? InitialPlacement::kRandom : InitialPlacement::kFixedRandom;
    const auto placer = placer_of(world, options);
    const auto choice = *placer->decode_actions(placer->sample(e, 0));
    for (std::size_t t = 0; t < choice.node.size(); ++t) {
      if (choice.node[t] % 4 == 0) {
        EXPECT_EQ(choice.decisions.devices[t], 2);
        EXPECT_EQ(choice.start[choice.node[t]], 2);
      } else {
        elsewhere += choice.decisions.devices[t] != 2 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(elsewhere, 60) << "the other groups are free";
  const auto placer = placer_of(world, options);
  auto forbidden = *placer->decode_actions(placer->sample(0, 0));
  forbidden.decisions.devices[0] = 0;
  EXPECT_FALSE(placer->decode_actions(PlacetoPlacer::encode_actions(forbidden)).ok());
}

}  // namespace
}  // namespace emplace::policy
