// Goal: Placeto learns reproducibly, and places unseen graphs. Method: placement problems with a known
// optimum, learned from simulated step times.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "policy/optim/adam.h"
#include "tests/policy/placeto_world.h"

namespace emplace::policy {
namespace {

using World = PlacetoWorld;

/// `lengths.size()` chains of ops side by side behind one source; a copy between devices takes twice an op.
World fork(const std::vector<std::uint32_t>& lengths, std::size_t gpus) {
  std::vector<testing::SampleOp> ops;
  ops.push_back({.name = "source", .output_bytes = {4}, .gpu_us = 1});
  for (std::uint32_t chain = 0; chain < lengths.size(); ++chain) {
    for (std::uint32_t i = 0; i < lengths[chain]; ++i) {
      testing::SampleOp op{.name = "c" + std::to_string(chain) + "." + std::to_string(i)};
      op.inputs = {{i == 0 ? 0 : static_cast<std::uint32_t>(ops.size()) - 1, 0}};
      op.gpu_us = 10;
      op.output_bytes = {20'000};
      ops.push_back(op);
    }
  }
  return {testing::sample_graph(ops), gpus};
}

/// Costs to go less their means over the last episodes of the same graph, as in the paper's baseline:
/// advantage_t = (ρ(s_T) - ρ(s_t)) - mean.
class Advantages {
 public:
  std::vector<float> of(const std::vector<double>& cost, double start) {
    std::vector<double> answer;
    for (std::size_t t = 0; t < cost.size(); ++t)
      answer.push_back(cost.back() - (t == 0 ? start : cost[t - 1]));
    std::vector<float> advantage;
    for (std::size_t t = 0; t < answer.size(); ++t) {
      double mean = 0;
      for (const auto& earlier : last_) mean += earlier[t] / static_cast<double>(last_.size());
      advantage.push_back(static_cast<float>(last_.empty() ? 0 : answer[t] - mean));
    }
    last_.push_back(std::move(answer));
    if (last_.size() > 100) last_.pop_front();
    return advantage;
  }

 private:
  std::deque<std::vector<double>> last_;
};

/// Trains on all worlds in turn, eight episodes per update. Calls `look(update)` after each; stops if it
/// returns true.
template <class Look>
void train(PlacetoPlacer& placer, std::vector<World*> worlds, std::uint64_t updates, Look look) {
  std::vector<Advantages> advantages(worlds.size());
  Adam adam{{.clip_norm = 1.25f}};
  for (std::uint64_t update = 0; update < updates; ++update) {
    placer.start_update(update);
    std::vector<ScoredEpisode> batch;
    for (std::uint64_t e = 8 * update; e < 8 * update + 8; ++e) {
      Actions actions = placer.sample(e, update);
      const std::size_t graph = placer.graph_of(actions);
      std::vector<double> cost;
      for (const Placement& placement : *placer.expand(actions))
        cost.push_back(std::log(worlds[graph]->time_s(placement) / 1e-5));
      // Every episode of a graph has the same start, so that the start's cost is in the mean too.
      auto advantage = advantages[graph].of(cost, 0);
      batch.push_back({std::move(actions), std::move(advantage)});
    }
    placer.parameters().clear_gradients();
    const auto parts = placer.accumulate_gradient(batch);
    ASSERT_TRUE(parts.ok());
    adam.step(placer.parameters(), 1e-3f);
    placer.end_update(*parts);
    if (look(update)) return;
  }
}

PlacetoOptions learning_options() {
  PlacetoOptions options;
  options.network.embedding = 16;
  options.network.hidden = 32;
  options.network.rounds = 4;
  options.loss.entropy = 0.2f;
  options.entropy_end = 0.005f;
  options.entropy_over = 200;
  return options;
}

TEST(Placeto, FindsTheKnownOptimum) {
  // Two chains of five ops on three devices: 12 of 3^11 placements are best, each chain on its own device and
  // the source with one of them; a chance of one in 14,762. The likeliest placement must be one of them
  // within 300 updates of 8 episodes of 11 placements.
  World world = fork({5, 5}, 3);
  int learned = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto placer = placer_of(world, learning_options(), seed);
    bool found = false;
    train(*placer, {&world}, 300, [&](std::uint64_t) {
      found = world.time_s(placer->greedy()) < 52.1e-6;
      return found;
    });
    learned += found ? 1 : 0;
  }
  EXPECT_GE(learned, 9);
}

TEST(Placeto, PlacesUnseenGraphs) {
  World worlds[] = {fork({4, 4}, 2), fork({6, 6}, 2), fork({3, 5, 4}, 2), fork({8}, 2)};
  const auto placer = *PlacetoPlacer::make(
      {worlds[0].view(), worlds[1].view(), worlds[2].view(), worlds[3].view()}, learning_options(), 1);
  train(*placer, {&worlds[0], &worlds[1], &worlds[2], &worlds[3]}, 400, [](std::uint64_t) { return false; });
  Rng rng{6, Purpose::kTest};
  double mean_ratio = 0;
  for (const std::vector<std::uint32_t>& lengths :
       {std::vector<std::uint32_t>{5, 5}, {7, 6}, {4, 5, 3}, {10}}) {
    World unseen = fork(lengths, 2);
    const auto stranger = placer_of(unseen, learning_options(), 2);
    ASSERT_TRUE(stranger->parameters().load(placer->parameters().bytes()).ok());
    double random = 0;
    for (int draw = 0; draw < 100; ++draw)
      random += unseen.time_s(testing::random_placement(rng, unseen.graph.num_ops(), 2)) / 100;
    const double ratio = unseen.time_s(stranger->greedy()) / random;
    EXPECT_LT(ratio, 0.8);
    mean_ratio += ratio / 4;
  }
  EXPECT_LT(mean_ratio, 0.65) << "of a random placement's mean";
}

TEST(Placeto, TrainingIsReproducible) {
  World world = fork({3, 3}, 2);
  const auto trained = [&] {
    const auto placer = placer_of(world, small_options());
    train(*placer, {&world}, 5, [](std::uint64_t) { return false; });
    return placer->parameters().sha256();
  };
  EXPECT_EQ(trained(), trained());
}

}  // namespace
}  // namespace emplace::policy
