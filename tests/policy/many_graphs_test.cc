// Goal: one policy of each method with a vocabulary learns on several graphs and places an unseen one,
// whatever its size and its op types. Method: placers as the registry makes them, on small graphs of
// different sizes; gradients against finite differences; a known optimum per graph, learned from simulated
// step times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/sim/simulator.h"
#include "policy/features.h"
#include "policy/loss/baseline.h"
#include "policy/optim/adam.h"
#include "policy/placers/registry.h"
#include "tests/policy/differences.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {
namespace {

constexpr std::string_view kMethods[] = {"hierarchical", "colocrl", "spotlight", "random-grouping",
                                         "simple-planner"};

/// A graph with named groups.
struct Many : testing::SampleTask {
  Many(OpGraph ops, std::size_t groups, std::size_t gpus = 2)
      : SampleTask{std::move(ops), testing::sample_devices(gpus, true, 1 << 30)},
        grouping{random_groups(graph, groups, 3)} {
    for (std::size_t g = 0; g < grouping.num_groups; ++g)
      grouping.labels.push_back("net/part" + std::to_string(g));
  }
  PlacedGraph view() const {
    return {{&graph, &devices, &constraints}, [this] { return grouping; }, nullptr, {}};
  }
  bool obeys(const Placement& placement) const { return constraints.check(graph, devices, placement).ok(); }
  Grouping grouping;
};

PolicyOptions small_policy(std::string_view method) {
  PolicyOptions options;
  options.method = method;
  options.groups = 6;
  options.placements = 3;
  options.noise = 0;
  options.noise_updates = 0;
  options.hierarchical.hidden = 6;
  options.hierarchical.grouper_hidden = 5;
  options.hierarchical.type_embedding = 3;
  options.sequence.network.hidden = 5;
  options.sequence.embedding = 3;
  options.simple_planner.hidden = 6;
  options.simple_planner.type_embedding = 3;
  if (method == "spotlight") options.loss.kind = LossKind::kKlPenalised;
  return options;
}

std::unique_ptr<Placer> placer_of(const PolicyOptions& options, const std::vector<const Many*>& worlds,
                                  std::uint64_t seed = 1) {
  std::vector<PlacedGraph> graphs;
  for (const Many* const world : worlds) graphs.push_back(world->view());
  auto made = make_placer(options, graphs, seed);
  EXPECT_TRUE(made.ok()) << options.method << ": " << (made ? "" : made.error().context);
  return *std::move(made);
}

/// The words of all worlds.
PolicyOptions with_words(PolicyOptions options, const std::vector<const Many*>& worlds) {
  std::vector<PlacedGraph> graphs;
  for (const Many* const world : worlds) graphs.push_back(world->view());
  options.features.words = words_of(options, graphs).value();
  return options;
}

TEST(ManyGraphs, EpisodePlacesItsGraphAndObeysItsConstraints) {
  const Many worlds[] = {{testing::random_graph(3, 24), 5}, {testing::random_graph(5, 15), 4}};
  for (const std::string_view method : kMethods) {
    const PolicyOptions options = with_words(small_policy(method), {&worlds[0], &worlds[1]});
    const auto placer = placer_of(options, {&worlds[0], &worlds[1]}),
               again = placer_of(options, {&worlds[0], &worlds[1]});
    for (std::uint64_t episode = 0; episode < 6; ++episode) {
      const Actions actions = placer->sample(episode, 0);
      EXPECT_EQ(actions.bytes, again->sample(episode, 0).bytes) << method;
      EXPECT_EQ(placer->graph_of(actions), episode % 2) << method;
      const auto placements = *placer->expand(actions);
      EXPECT_EQ(placements.size(), 3u) << method;
      for (const Placement& placement : placements)
        EXPECT_TRUE(worlds[episode % 2].obeys(placement)) << method;
      EXPECT_EQ(placer->log_probabilities(actions)->size(), 3u) << method;
    }
    Actions damaged = placer->sample(0, 0);
    const std::uint32_t beyond = 2;
    std::memcpy(damaged.bytes.data(), &beyond, sizeof beyond);
    EXPECT_FALSE(placer->expand(damaged).ok()) << method;
    EXPECT_EQ(placer->graph_of(damaged), 0u) << method;
    const std::uint32_t other = 1;
    std::memcpy(damaged.bytes.data(), &other, sizeof other);
    EXPECT_FALSE(placer->expand(damaged).ok()) << method << ": the choices are of the larger graph";
    damaged.bytes.resize(3);
    EXPECT_FALSE(placer->expand(damaged).ok()) << method;
    const ScoredEpisode damaged_episode{damaged, {0, 0, 0}};
    EXPECT_FALSE(placer->accumulate_gradient({&damaged_episode, 1}).ok()) << method;
  }
}

TEST(ManyGraphs, GradientIsThatOfTheLossOnGraphsOfDifferentSizes) {
  const Many worlds[] = {{testing::random_graph(3, 24), 5}, {testing::random_graph(5, 15), 3}};
  for (const std::string_view method : kMethods) {
    PolicyOptions options = with_words(small_policy(method), {&worlds[0], &worlds[1]});
    options.loss.entropy = 0.3f;
    options.hierarchical.tanh_constant = 2;
    options.hierarchical.temperature = 1;
    const auto placer = placer_of(options, {&worlds[0], &worlds[1]});
    ParameterStore& store = placer->parameters();
    const std::vector<ScoredEpisode> batch{{placer->sample(0, 0), {0.5f, -1.0f, 0.25f}},
                                           {placer->sample(1, 0), {1.0f, 2.0f, -0.5f}},
                                           {placer->sample(3, 0), {0.25f, -0.75f, 1.5f}}};
    Rng rng{4, Purpose::kTest};
    for (float& value : store.values()) value += 0.1f * (2 * rng.uniform() - 1);
    const auto loss = [&] { return placer->accumulate_gradient(batch)->loss; };
    store.clear_gradients();
    ASSERT_TRUE(placer->accumulate_gradient(batch).ok());
    const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
    float largest = 0;
    for (int check = 0; check < 300; ++check) {
      const std::size_t i =
          check < 30 ? static_cast<std::size_t>(check) : rng.below(static_cast<std::uint32_t>(store.size()));
      const auto numeric = static_cast<float>(central_difference(loss, store.values()[i], 1e-3f));
      EXPECT_NEAR(analytic[i], numeric, 2e-2f * std::max(0.5f, std::abs(numeric)))
          << method << ", parameter " << i;
      largest = std::max(largest, std::abs(numeric));
    }
    EXPECT_GT(largest, 0.01f) << method << ": nothing flowed, so the check would prove nothing";

    // The gradient of a batch is the mean of those of its episodes, whichever graphs they place.
    store.clear_gradients();
    for (const ScoredEpisode& one : batch) ASSERT_TRUE(placer->accumulate_gradient({&one, 1}).ok());
    for (std::size_t i = 0; i < store.size(); ++i)
      EXPECT_NEAR(analytic[i], store.gradients()[i] / 3, 1e-4f * std::max(1.0f, std::abs(analytic[i])))
          << method << ", parameter " << i;
  }
}

TEST(ManyGraphs, ParametersOfSomeGraphsPlaceAnyOther) {
  const Many worlds[] = {{testing::random_graph(3, 24), 5}, {testing::random_graph(5, 15), 3}};
  // Larger, with as many groups as fit, of ops that no other graph has.
  std::vector<testing::SampleOp> novel;
  for (std::uint32_t i = 0; i < 40; ++i) {
    testing::SampleOp op{.name = "op" + std::to_string(i), .type = i % 2 == 0 ? "Novel" : "Work"};
    if (i > 0) op.inputs = {{i - 1, 0}};
    novel.push_back(op);
  }
  Many unseen{testing::sample_graph(novel), 6};
  unseen.grouping.labels[0] = "never/seen";
  for (const std::string_view method : kMethods) {
    const PolicyOptions options = with_words(small_policy(method), {&worlds[0], &worlds[1]});
    const auto placer = placer_of(options, {&worlds[0], &worlds[1]}), there = placer_of(options, {&unseen});
    EXPECT_EQ(there->parameters().sha256(), placer->parameters().sha256()) << method;
    Rng rng{8, Purpose::kTest};
    for (float& value : placer->parameters().values()) value += 0.3f * (2 * rng.uniform() - 1);
    ASSERT_TRUE(there->parameters().load(placer->parameters().bytes()).ok()) << method;
    EXPECT_TRUE(unseen.obeys(there->greedy())) << method;
    const Actions actions = there->sample(0, 0);
    for (const Placement& placement : *there->expand(actions)) EXPECT_TRUE(unseen.obeys(placement)) << method;
    // Unknown words have an embedding, the last column of the first matrix.
    if (method == "random-grouping" || method == "hierarchical") continue;  // The Placer counts types.
    const auto before = *there->log_probabilities(actions);
    for (std::size_t row = 0; row < 3; ++row)
      there->parameters().values()[3 * options.features.words.size() + row] += 1;
    EXPECT_NE(*there->log_probabilities(actions), before) << method;
  }
}

TEST(ManyGraphs, VocabularyIsTheMostFrequentWordsOfAllGraphs) {
  std::vector<testing::SampleOp> few{{.name = "a", .type = "Rare"}, {.name = "b", .type = "Often"}},
      many{{.name = "a", .type = "Often"}, {.name = "b", .type = "Also"}, {.name = "c", .type = "Also"}};
  const Many worlds[] = {{testing::sample_graph(few), 1}, {testing::sample_graph(many), 2}};
  using Words = std::vector<std::string>;
  EXPECT_EQ(with_words(small_policy("colocrl"), {&worlds[0], &worlds[1]}).features.words,
            (Words{"Also", "Often", "Rare"}));
  EXPECT_EQ(with_words(small_policy("colocrl"), {&worlds[1], &worlds[0]}).features.words,
            (Words{"Also", "Often", "Rare"}))
      << "whichever graph is first";
  PolicyOptions options = small_policy("hierarchical");
  options.features.vocabulary = 2;
  EXPECT_EQ(with_words(options, {&worlds[0], &worlds[1]}).features.words, (Words{"Also", "Often"}));
  options.features.vocabulary = 0;
  EXPECT_EQ(with_words(options, {&worlds[0], &worlds[1]}).features.words.size(), 1u)
      << "without any word it would be a policy of one graph";
  EXPECT_EQ(with_words(small_policy("placeto"), {&worlds[0]}).features.words, Words{});
  EXPECT_FALSE(needs_words("sweep"));

  Many stepped{testing::random_graph(3, 24), 3};
  stepped.grouping.labels = {"net/t01/a", "net/t02/a", "net/b"};
  options = small_policy("spotlight");
  EXPECT_EQ(with_words(options, {&stepped}).features.words, (Words{"net/b", "net/t01/a", "net/t02/a"}));
  options.share_time_steps = true;
  EXPECT_EQ(with_words(options, {&stepped}).features.words, (Words{"net/a", "net/b"}));
  stepped.grouping.labels.clear();
  const PlacedGraph nameless = stepped.view();
  const auto refused = words_of(options, {&nameless, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("policy.grouping"), std::string::npos) << refused.error().context;
}

TEST(ManyGraphs, UnsuitableGraphsAreRefused) {
  const Many five{testing::random_graph(3, 24), 5}, larger{testing::random_graph(3, 24), 7},
      fewer_devices{testing::random_graph(5, 15), 3, 1};
  const auto why = [](const PolicyOptions& options, const std::vector<const Many*>& worlds) {
    std::vector<PlacedGraph> graphs;
    for (const Many* const world : worlds) graphs.push_back(world->view());
    const auto made = make_placer(options, graphs, 1);
    return made ? std::string{} : made.error().context;
  };
  for (const std::string_view method : kMethods) {
    const PolicyOptions options = with_words(small_policy(method), {&five});
    EXPECT_EQ(why(options, {&five}), "") << method;
    EXPECT_NE(why(options, {&five, &fewer_devices}).find("number of devices"), std::string::npos) << method;
    EXPECT_NE(why(small_policy(method), {&five, &five}).find("policy.features.words"), std::string::npos)
        << method;
    PolicyOptions wordy = options;
    wordy.features.words.resize(70'000, "x");
    EXPECT_NE(why(wordy, {&five}).find("70000 words"), std::string::npos) << method;
    if (method == "simple-planner") continue;  // It has no groups.
    PolicyOptions scopes = options;
    scopes.hierarchical.start_at_scopes = true;
    EXPECT_NE(why(scopes, {&five, &larger}).find("policy.groups"), std::string::npos) << method;
  }
}

/// Chains of 4 us ops, each faster on the device that its type suits; the best placement is known.
struct Preferences : Many {
  explicit Preferences(std::vector<bool> suits_cpu)
      : Many{graph_of(suits_cpu), 1, 1}, simulator{graph, devices}, suits{std::move(suits_cpu)} {
    grouping.group_of_op.clear();
    grouping.labels.clear();
    grouping.num_groups = suits.size() / 2;
    for (std::uint32_t op = 0; op < suits.size(); ++op) grouping.group_of_op.push_back(op / 2);
    for (std::size_t g = 0; g < grouping.num_groups; ++g)
      grouping.labels.push_back(suits[2 * g] ? "left" : "right");
  }
  static OpGraph graph_of(const std::vector<bool>& suits_cpu) {
    std::vector<testing::SampleOp> ops;
    for (std::uint32_t i = 0; i < suits_cpu.size(); ++i) {
      testing::SampleOp op{.name = "op" + std::to_string(i)};
      if (i > 0) op.inputs = {{i - 1, 0}};
      op.cpu_us = suits_cpu[i] ? 40 : 160;
      op.gpu_us = suits_cpu[i] ? 160 : 40;
      op.output_bytes = {1000};
      op.type = suits_cpu[i] ? "Left" : "Right";
      ops.push_back(op);
    }
    return testing::sample_graph(ops);
  }
  double time_s(const Placement& placement) {
    Measurement measured;
    simulator.measure(placement, measured).value();
    return measured.step_time_s;
  }
  double best_s() {
    Placement best;
    for (const bool left : suits) best.push_back(left ? DeviceId{0} : DeviceId{1});
    return time_s(best);
  }
  Simulator simulator;
  std::vector<bool> suits;
};

// Two chains of 6 and of 4 groups, of two types. A policy of either paper finds the device of each type; the
// third chain, of 8 groups in another order, is then placed without learning.
TEST(ManyGraphs, PolicyLearnsOnAllGraphsAndIsReproducible) {
  const auto pairs = [](const std::string& text) {
    std::vector<bool> suits;
    for (const char c : text) suits.insert(suits.end(), 2, c == 'L');
    return suits;
  };
  for (const std::string_view method : kMethods) {
    Preferences first{pairs("LRRLRL")}, second{pairs("RLLR")}, unseen{pairs("RRLRLLRL")};
    Preferences* const worlds[] = {&first, &second};
    PolicyOptions options = small_policy(method);
    options.groups = 8;
    options.placements = 8;
    options.hierarchical.hidden = options.sequence.network.hidden = 16;
    options.sequence.network.sees_group = options.hierarchical.sees_group = true;
    options.hierarchical.start_at_scopes = true;
    options = with_words(options, {&first, &second});
    const auto trained = [&] {
      auto placer = placer_of(options, {&first, &second});
      Adam adam;
      std::vector<Baseline> baselines(2, Baseline{{.normalise = true}});
      for (std::uint64_t update = 0; update < 300; ++update) {
        placer->start_update(update);
        std::vector<ScoredEpisode> batch;
        for (std::uint64_t episode = 2 * update; episode < 2 * update + 2; ++episode) {
          Actions actions = placer->sample(episode, update);
          const std::size_t graph = placer->graph_of(actions);
          std::vector<double> costs;
          for (const Placement& placement : *placer->expand(actions))
            costs.push_back(std::log(worlds[graph]->time_s(placement)));
          const auto advantages =
              baselines[graph].advantages(costs, std::vector<std::uint8_t>(costs.size(), 1));
          batch.push_back({std::move(actions), {advantages.begin(), advantages.end()}});
        }
        placer->parameters().clear_gradients();
        const LossParts parts = placer->accumulate_gradient(batch).value();
        adam.step(placer->parameters(), 0.01f);
        placer->end_update(parts);
      }
      return placer;
    };
    const auto placer = trained();
    const auto likeliest_of = [&](const Many& world) {
      const auto alone = placer_of(options, {&world});
      EXPECT_TRUE(alone->parameters().load(placer->parameters().bytes()).ok()) << method;
      return alone->greedy();
    };
    for (Preferences* const world : worlds)
      EXPECT_LT(world->time_s(likeliest_of(*world)), 1.05 * world->best_s()) << method;
    // Counts of types and a bare adjacency are not enough information about another order.
    if (method != "random-grouping") {
      EXPECT_LT(unseen.time_s(likeliest_of(unseen)), 1.05 * unseen.best_s()) << method;
    }
    EXPECT_TRUE(unseen.obeys(likeliest_of(unseen))) << method;
    EXPECT_EQ(trained()->parameters().sha256(), placer->parameters().sha256()) << method;
  }
}

// A sequence placer learns each graph in several orders of its groups, and then places it in another.
TEST(ManyGraphs, OrdersOfTheGroupsAreFixedAndGroupsKeepTheirLabels) {
  const Many worlds[] = {{testing::random_graph(3, 24), 5}, {testing::random_graph(5, 15), 3}};
  for (const std::string_view method : {"colocrl", "spotlight", "random-grouping"}) {
    for (const bool any_graph : {false, true}) {
      std::vector<const Many*> graphs{&worlds[0]};
      if (any_graph) graphs.push_back(&worlds[1]);
      PolicyOptions options = small_policy(method);
      if (any_graph) options = with_words(options, graphs);
      options.order = GroupOrder::kShuffled;
      const auto plain = placer_of(options, graphs);
      options.orders = 2;
      const auto placer = placer_of(options, graphs);
      EXPECT_EQ(placer->parameters().size(), plain->parameters().size()) << method;
      Rng rng{8, Purpose::kTest};
      for (float& value : placer->parameters().values()) value += 0.5f * (2 * rng.uniform() - 1);
      for (std::uint64_t episode = 0; episode < 8; ++episode) {
        const Actions actions = placer->sample(episode, 0);
        EXPECT_EQ(placer->graph_of(actions), episode % graphs.size()) << method;
        const std::uint32_t task = static_cast<std::uint32_t>(episode % (2 * graphs.size()));
        std::uint32_t written = 0;
        std::memcpy(&written, actions.bytes.data(), sizeof written);
        EXPECT_EQ(written, task) << method << ": each order in turn";
        const ScoredEpisode scored{actions, {1, -1, 0.5f}};
        EXPECT_TRUE(placer->accumulate_gradient({&scored, 1}).ok()) << method;
      }

      if (!any_graph) continue;
      // In an unseen order the placer equals that of a grouping that is numbered in this order.
      PolicyOptions unseen = options;
      unseen.unseen_order = 7;
      const auto there = placer_of(unseen, {&worlds[0]});
      ASSERT_TRUE(there->parameters().load(placer->parameters().bytes()).ok());
      Many renumbered{testing::random_graph(3, 24), 5};
      const auto place = unseen_order(5, 7);
      for (std::uint32_t& group : renumbered.grouping.group_of_op) group = place[group];
      for (std::size_t g = 0; g < 5; ++g) renumbered.grouping.labels[place[g]] = worlds[0].grouping.labels[g];
      PolicyOptions indexed = options;
      indexed.orders = 0;
      indexed.order = GroupOrder::kIndex;
      const auto same = placer_of(indexed, {&renumbered});
      ASSERT_TRUE(same->parameters().load(placer->parameters().bytes()).ok());
      EXPECT_EQ(there->greedy(), same->greedy()) << method;
    }
  }
}

// Without a vocabulary Spotlight numbers the embeddings of groups; a group has its own in every order.
TEST(ManyGraphs, SpotlightsEmbeddingsFollowTheGroupsIntoEveryOrder) {
  const Many world{testing::random_graph(3, 24), 5};
  PolicyOptions options = small_policy("spotlight");
  options.order = GroupOrder::kShuffled;
  options.orders = 3;
  const auto placer = placer_of(options, {&world});
  Rng rng{8, Purpose::kTest};
  for (float& value : placer->parameters().values()) value += 0.5f * (2 * rng.uniform() - 1);
  for (std::uint64_t episode = 0; episode < 3; ++episode) {
    const Actions actions = placer->sample(episode, 0);
    const auto before = *placer->log_probabilities(actions);
    for (std::size_t group = 0; group < 5; ++group) {
      float& entry = placer->parameters().values()[3 * group];
      const float kept = entry;
      entry += 1;
      EXPECT_NE(*placer->log_probabilities(actions), before)
          << "group " << group << " is read in every order";
      entry = kept;
    }
  }
}

// The Placer knows groups by their place in the shuffled order, which must not change with the run's seed.
TEST(ManyGraphs, OrderOfTheGroupsIsPartOfThePolicy) {
  const Many world{testing::random_graph(3, 24), 5};
  PolicyOptions options = with_words(small_policy("hierarchical"), {&world});
  options.order = GroupOrder::kShuffled;
  const auto trained = placer_of(options, {&world}, 7), elsewhere = placer_of(options, {&world}, 1);
  options.order_seed = 7;
  const auto there = placer_of(options, {&world}, 1);
  Rng rng{8, Purpose::kTest};
  int different = 0;
  for (int policy = 0; policy < 10; ++policy) {
    for (float& value : trained->parameters().values()) value = 2 * rng.uniform() - 1;
    for (Placer* const placer : {elsewhere.get(), there.get()})
      ASSERT_TRUE(placer->parameters().load(trained->parameters().bytes()).ok());
    EXPECT_EQ(there->greedy(), trained->greedy());
    different += elsewhere->greedy() != trained->greedy() ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

}  // namespace
}  // namespace emplace::policy
