// Goal: an episode of Placeto starts where it should, in training as in the likeliest pass. Method:
// starts, placements and likeliest passes of small policies, trained and not, on random graphs.
#include <gtest/gtest.h>

#include <vector>

#include "policy/training/trainer.h"
#include "tests/policy/placeto_world.h"

namespace emplace::policy {
namespace {

using World = PlacetoWorld;

TEST(Placeto, EpisodesStartAtTheGivenBest) {
  const World world = random_world(), other = random_world(9, 16);
  PlacetoOptions options = small_options();
  options.start = InitialPlacement::kBest;
  const auto placer = *PlacetoPlacer::make({world.view(), other.view()}, options, 1);
  EXPECT_EQ(placer->incumbent(), Incumbent::kFitting);
  // Episode 2 is about the first graph again.
  const auto by_default = *placer->decode_actions(placer->sample(2, 0));
  std::vector<Placement> best{placer->expand(placer->sample(2, 0))->back(), {}};
  const auto from_best = *placer->decode_actions(placer->sample_from(best, 2, 0));
  EXPECT_NE(from_best.start, by_default.start);
  const auto at_last = *placer->decode_actions(placer->sample(2, 0));
  for (std::size_t t = 0; t < at_last.node.size(); ++t)
    EXPECT_EQ(from_best.start[at_last.node[t]], at_last.decisions.devices[t]);
  EXPECT_EQ(placer->sample_from(best, 3, 0).bytes, placer->sample(3, 0).bytes) << "of a graph without a best";
  options.start = InitialPlacement::kSingle;
  const auto single = *PlacetoPlacer::make({world.view(), other.view()}, options, 1);
  EXPECT_EQ(single->sample_from(best, 2, 0).bytes, single->sample(2, 0).bytes);
  EXPECT_EQ(*parse_word<InitialPlacement>("best"), InitialPlacement::kBest);
  EXPECT_FALSE(parse_word<InitialPlacement>("given").ok()) << "no config can give a placement";
}

TEST(Placeto, MeasuredStartIsTheFirstPlacementButNotAStep) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.start = InitialPlacement::kRandom;
  const auto plain = placer_of(world, options);
  options.measure_start = true;
  const auto placer = placer_of(world, options);
  EXPECT_EQ(placer->placements_per_episode(), plain->placements_per_episode() + 1);
  const Actions actions = placer->sample(3, 0);
  EXPECT_EQ(actions.bytes, plain->sample(3, 0).bytes);
  auto placements = *placer->expand(actions);
  const auto choice = *placer->decode_actions(actions);
  const Grouping grouping = world.view().grouping;
  for (std::size_t op = 0; op < world.graph.num_ops(); ++op)
    EXPECT_EQ(index(placements.front()[op]), choice.start[grouping.group_of_op[op]]);
  placements.erase(placements.begin());
  EXPECT_EQ(placements, *plain->expand(actions));
  const ScoredEpisode episode{actions, std::vector<float>(choice.node.size(), 0.5f)};
  EXPECT_TRUE(placer->accumulate_gradient({&episode, 1}).ok()) << "an advantage for each step";
}

TEST(Placeto, FixedRandomStartIsThatOfTheGraphAndTheSeed) {
  const World world = random_world(3, 60), other = random_world(9, 40);
  PlacetoOptions options = small_options();
  options.start = InitialPlacement::kFixedRandom;
  using Start = std::vector<std::uint8_t>;
  const auto starts_of = [&](const std::vector<PlacetoGraph>& graphs, std::uint64_t seed = 1) {
    const auto placer = *PlacetoPlacer::make(graphs, options, seed);
    std::vector<Start> starts;
    for (std::uint64_t episode = 0; episode < 3 * graphs.size(); ++episode) {
      starts.push_back(placer->decode_actions(placer->sample(episode, 0))->start);
      EXPECT_EQ(starts.back(), starts[episode % graphs.size()]) << "the same in all episodes of a graph";
    }
    starts.resize(graphs.size());
    return starts;
  };
  const std::vector<Start> starts = starts_of({world.view(), other.view()});
  EXPECT_EQ(starts_of({other.view(), world.view()}), (std::vector<Start>{starts[1], starts[0]}));
  EXPECT_EQ(starts_of({world.view()}).front(), starts[0]) << "whatever the other graphs are";
  EXPECT_NE(starts_of({world.view()}, 2).front(), starts[0]);
  EXPECT_NE(starts_of({random_world(4, 60).view()}).front(), starts[0]) << "of a graph of the same size";
  std::vector<int> used(world.devices.size());
  for (const std::uint8_t device : starts[0]) ++used[device];
  for (const int groups : used) EXPECT_GT(groups, 5) << "of " << starts[0].size();

  // A start that is given replaces the random one.
  PlacetoGraph given = world.view();
  given.start = Placement(world.graph.num_ops(), DeviceId{1});
  EXPECT_EQ(starts_of({given}).front(), Start(starts[0].size(), 1));
}

TEST(Placeto, LikeliestPlacementStartsAsEpisodesDo) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.network.stay = 60;  // No group moves.
  const auto greedy_from = [&](InitialPlacement start, std::uint64_t seed = 1) {
    options.start = start;
    const auto placer = placer_of(world, options, seed);
    const auto pass = placer->greedy_pass();
    EXPECT_EQ(pass.size(), placer->group_graph(0).size() + 1);
    EXPECT_EQ(pass.front(), placer->greedy()) << "it stays";
    return placer->greedy();
  };
  const auto episode_from = [&](InitialPlacement start, std::uint64_t episode) {
    options.start = start;
    const auto placer = placer_of(world, options);
    return placer->expand(placer->sample(episode, 0))->front();
  };
  const Placement single = greedy_from(InitialPlacement::kSingle);
  EXPECT_EQ(single, episode_from(InitialPlacement::kSingle, 5));
  EXPECT_EQ(single, greedy_from(InitialPlacement::kSingle, 2));
  EXPECT_EQ(single, greedy_from(InitialPlacement::kBest));
  const Placement fixed = greedy_from(InitialPlacement::kFixedRandom);
  EXPECT_NE(fixed, single);
  EXPECT_EQ(fixed, episode_from(InitialPlacement::kFixedRandom, 5));
  EXPECT_NE(fixed, greedy_from(InitialPlacement::kFixedRandom, 2));
  EXPECT_EQ(fixed, greedy_from(InitialPlacement::kRandom)) << "no episode's own start";
  EXPECT_NE(fixed, episode_from(InitialPlacement::kRandom, 5));
}

TEST(Placeto, LikeliestPassTakesTheLikeliestDeviceOfEachGroupInTurn) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  options.start = InitialPlacement::kFixedRandom;
  options.rounds_per_episode = 2;
  options.network.means = true;
  const auto placer = placer_of(world, options);
  shake(*placer, 1);
  const std::vector<Placement> pass = placer->greedy_pass();
  auto choice = *placer->decode_actions(placer->sample(0, 0));
  ASSERT_EQ(pass.size(), choice.node.size() + 1);
  for (std::size_t t = 0; t < choice.node.size(); ++t) {
    Eigen::Index device = 0;
    placer->log_probabilities(choice).col(static_cast<Eigen::Index>(t)).maxCoeff(&device);
    choice.decisions.devices[t] = static_cast<std::uint8_t>(device);
  }
  const auto steps = *placer->expand(PlacetoPlacer::encode_actions(choice));
  EXPECT_EQ(std::vector<Placement>(pass.begin() + 1, pass.end()), steps);
  EXPECT_EQ(placer->greedy(), pass.back());
  EXPECT_NE(pass.front(), pass.back()) << "it moves";
}

TEST(Placeto, PlacementsOfOthersAreLearnedFromTheStartOfEpisodes) {
  const World world = random_world();
  PlacetoOptions options = small_options();
  for (const InitialPlacement start : {InitialPlacement::kSingle, InitialPlacement::kFixedRandom}) {
    options.start = start;
    const auto placer = placer_of(world, options);
    const auto drawn = *placer->decode_actions(placer->sample(4, 0));
    const Placement reached = placer->expand(PlacetoPlacer::encode_actions(drawn))->back();
    const double log_q = -3;
    const Actions actions = *placer->actions_of(0, {&reached, 1}, {&log_q, 1});
    EXPECT_EQ(placer->decode_actions(actions)->start, drawn.start) << word_of(start);
    EXPECT_EQ(placer->expand(actions)->back(), reached);
  }
}

TEST(Placeto, RepeatsAnImitatedPlacement) {
  const World world = random_world(6, 30);
  Rng rng{5, Purpose::kTest};
  Placement wanted = testing::random_placement(rng, world.graph.num_ops(), world.devices.size());
  world.constraints.repair(wanted);
  PlacetoOptions options;
  for (const InitialPlacement start : {InitialPlacement::kSingle, InitialPlacement::kFixedRandom}) {
    options.start = start;
    const auto placer = placer_of(world, options);
    // At this mean over 30 groups none has a probability below one half.
    const auto reached = imitate(*placer, {.placement = wanted, .probability = 0.98, .max_steps = 3000});
    ASSERT_TRUE(reached.ok());
    EXPECT_GE(*reached, 0.98);
    EXPECT_EQ(placer->greedy(), wanted) << word_of(start) << ": from where it was learned";
  }
}

}  // namespace
}  // namespace emplace::policy
