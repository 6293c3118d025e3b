// Goal: the scheduler as a placer draws only permitted placements, ascends its objective, changes only a part
// of a placement that it improves, and has the same parameters for any graph and machine. Method: finite
// differences of its loss; random graphs with pinned and co-located ops; a schedule with a known optimum;
// damaged actions.
#include "policy/placers/scheduler_placer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "policy/optim/adam.h"
#include "tests/policy/differences.h"
#include "tests/policy/scheduled.h"

namespace emplace::policy {
namespace {

SchedulerOptions small() {
  SchedulerOptions options;
  options.embedding = 5;
  options.code = 4;
  options.rounds = 2;
  options.founders = options.improvers = 2;
  options.placements = 3;
  options.improves = true;
  return options;
}

std::unique_ptr<SchedulerPlacer> placer_of(const Scheduled& task, SchedulerOptions options = small(),
                                           Placement start = {}, std::uint64_t seed = 1) {
  auto placer = *SchedulerPlacer::make({{&task.constraints, {task.world}, std::move(start)}}, options, seed);
  Rng rng{9, Purpose::kTest};  // Changes the parameters; some are zero at the start.
  for (float& value : placer->parameters().values()) value += 0.3f * rng.normal();
  return placer;
}

DeviceSet machine(std::size_t gpus = 3) { return testing::sample_devices(gpus, true, 1 << 30); }

TEST(SchedulerPlacer, EpisodesAreFunctionsOfSeedNumberAndParameters) {
  const Scheduled task{3, 50, machine()};
  const auto placer = placer_of(task);
  const Placement best = placer->greedy();
  for (std::uint64_t episode = 0; episode < 8; ++episode) {
    const Actions drawn = placer->sample_from({&best, 1}, episode, 0);
    EXPECT_EQ(drawn.bytes, placer_of(task)->sample_from({&best, 1}, episode, 5).bytes);
    EXPECT_NE(drawn.bytes, placer->sample_from({&best, 1}, episode + 1, 0).bytes);
    EXPECT_NE(drawn.bytes, placer_of(task, small(), {}, 2)->sample_from({&best, 1}, episode, 0).bytes);
    const auto placements = *placer->expand(drawn);
    ASSERT_EQ(placements.size(), 3u);
    for (const Placement& placement : placements)
      EXPECT_TRUE(task.constraints.check(task.graph, task.devices, placement).ok());
    EXPECT_EQ(placements, *placer->expand(drawn));
    EXPECT_EQ(placer->log_probabilities(drawn)->size(), 3u);
  }
}

TEST(SchedulerPlacer, GradientIsThatOfItsObjective) {
  const Scheduled task{5, 30, machine()};
  SchedulerOptions options = small();
  options.loss.entropy = 0.2f;
  const auto placer = placer_of(task, options);
  const Placement best = placer->greedy();
  // One episode that places without a start, one that improves.
  std::vector<ScoredEpisode> batch{{placer->sample(0, 0), {0.5f, -1.0f, 0.25f}}};
  for (std::uint64_t episode = 1; batch.size() < 2; ++episode)
    if (Actions drawn = placer->sample_from({&best, 1}, episode, 0);
        drawn.bytes.size() > batch[0].actions.bytes.size())
      batch.push_back({std::move(drawn), {1.0f, 2.0f, -0.5f}});
  ParameterStore& store = placer->parameters();
  const auto loss = [&] { return placer->accumulate_gradient(batch)->loss; };
  store.clear_gradients();
  ASSERT_TRUE(placer->accumulate_gradient(batch).ok());
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  float largest = 0;
  std::size_t off = 0;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const auto numeric = static_cast<float>(central_difference(loss, store.values()[i], 1e-3f));
    // A step across the kink of a ReLU gives another value.
    if (std::abs(analytic[i] - numeric) > 4e-2f * std::max(0.2f, std::abs(numeric))) ++off;
    largest = std::max(largest, std::abs(numeric));
  }
  EXPECT_GT(largest, 0.05f);
  EXPECT_LE(off, store.size() / 100);
}

TEST(SchedulerPlacer, EqualCostsGiveNoGradient) {
  const Scheduled task{5, 30, machine()};
  const auto placer = placer_of(task);
  const auto gradient_of = [&](std::vector<float> advantages) {
    const ScoredEpisode episode{placer->sample(0, 0), std::move(advantages)};
    placer->parameters().clear_gradients();
    EXPECT_TRUE(placer->accumulate_gradient({&episode, 1}).ok());
    const auto gradients = placer->parameters().gradients();
    return std::vector<float>(gradients.begin(), gradients.end());
  };
  for (const float g : gradient_of({2, 2, 2})) EXPECT_EQ(g, 0);
  EXPECT_EQ(gradient_of({5, 6, 7}), gradient_of({-1, 0, 1}));
}

TEST(SchedulerPlacer, ImprovementsKeepTheRestOfThePlacement) {
  const Scheduled task{7, 60, machine()};
  const auto placer = placer_of(task);
  // A placement that ignores units, so that no choice of units gives it. No used devices of this machine are
  // twins, so names stay.
  Placement best(task.graph.num_ops());
  Rng rng{4, Purpose::kTest};
  for (DeviceId& device : best) device = static_cast<DeviceId>(rng.below(4));
  task.constraints.repair(best);
  std::size_t fewest = best.size();
  bool improved = false;
  for (std::uint64_t episode = 0; episode < 40; ++episode) {
    const Actions drawn = placer->sample_from({&best, 1}, episode, 0);
    if (drawn.bytes.size() < best.size() + 3 * task.world.num_units()) continue;  // Places without a start.
    improved = true;
    for (const Placement& placement : *placer->expand(drawn)) {
      // Twins may be renamed; only which ops are together counts.
      std::map<std::pair<DeviceId, DeviceId>, std::size_t> pairs;
      for (std::size_t op = 0; op < best.size(); ++op) ++pairs[{best[op], placement[op]}];
      std::map<DeviceId, std::size_t> kept;
      for (const auto& [pair, count] : pairs) kept[pair.first] = std::max(kept[pair.first], count);
      std::size_t changed = best.size();
      for (const auto& [device, count] : kept) changed -= count;
      fewest = std::min(fewest, changed);
    }
  }
  EXPECT_TRUE(improved);
  EXPECT_LE(fewest, best.size() / 20);
}

TEST(SchedulerPlacer, MeasuresTheStartUntilThereIsAnIncumbent) {
  const Scheduled task{7, 60, machine()};
  Placement start(task.graph.num_ops());
  Rng rng{4, Purpose::kTest};
  for (DeviceId& device : start) device = static_cast<DeviceId>(rng.below(4));
  task.constraints.repair(start);
  const auto placer = placer_of(task, small(), start);
  // The devices of a set of twins have the names of their first use.
  const auto name = task.world.names(task.world.units_of(start));
  Placement named;
  for (const DeviceId device : start) named.push_back(static_cast<DeviceId>(name[index(device)]));
  std::size_t changed = 0, later_changed = 0;
  for (std::uint64_t episode = 0; episode < 10; ++episode) {
    const Actions drawn = placer->sample_from({}, episode, 0);
    const auto placements = *placer->expand(drawn);
    EXPECT_EQ(placements[0], named);
    EXPECT_EQ(placements.size(), 3u);
    for (std::size_t walk = 1; walk < placements.size(); ++walk) changed += placements[walk] != named ? 1 : 0;
    const auto log_p = placer->log_probabilities(drawn);
    ASSERT_TRUE(log_p.ok()) << log_p.error().context;
    EXPECT_EQ(log_p->front(), 0) << "nothing was drawn";
    EXPECT_TRUE(placer->accumulate_gradient({{{drawn, {1, 2, 3}}}}).ok());
    const auto later = *placer->expand(placer->sample_from({&start, 1}, episode, 0));
    later_changed += later[0] != named ? 1 : 0;
  }
  EXPECT_GE(changed, 10u) << "of 20 others; a unit that must leave may be pinned";
  EXPECT_GE(later_changed, 5u) << "of 10 first walks with an incumbent";
}

TEST(SchedulerPlacer, ParametersOfOneGraphAndMachinePlaceAnother) {
  const Scheduled task{3, 40, machine(2)}, other{8, 90, machine(5)};
  const auto learned = placer_of(task), placer = placer_of(other);
  for (float& value : learned->parameters().values()) value *= 1.25f;
  EXPECT_NE(placer->parameters().sha256(), learned->parameters().sha256());
  ASSERT_TRUE(placer->parameters().load(learned->parameters().bytes()).ok());
  EXPECT_EQ(placer->parameters().sha256(), learned->parameters().sha256());
  EXPECT_EQ(placer->greedy().size(), other.graph.num_ops());
}

TEST(SchedulerPlacer, LearnsToReduceTheCost) {
  // The cost is the number of ops that are not on the CPU, which no rule of a list scheduler wants.
  const Scheduled task{11, 30, machine(2)};
  SchedulerOptions options = small();
  options.placements = 16;
  options.loss.entropy = 0.02f;
  const auto placer = placer_of(task, options);
  for (float& value : placer->parameters().values())
    value *= 0.1f;  // The choices of the rules become nearly certain.
  const auto cost_of = [](const Placement& placement) {
    return static_cast<float>(placement.size()) -
           static_cast<float>(std::count(placement.begin(), placement.end(), DeviceId{0}));
  };
  std::vector<float> means;  // Mean of the first 20 episodes, then of the last 20.
  Adam adam;
  for (std::uint64_t episode = 0; episode < 200; ++episode) {
    ScoredEpisode scored{placer->sample(episode, episode), {}};
    for (const Placement& placement : *placer->expand(scored.actions))
      scored.advantages.push_back(cost_of(placement));
    if (episode % 180 == 0) means.push_back(0);
    if (episode < 20 || episode >= 180)
      for (const float cost : scored.advantages) means.back() += cost / 320;
    placer->parameters().clear_gradients();
    ASSERT_TRUE(placer->accumulate_gradient({&scored, 1}).ok());
    adam.step(placer->parameters(), 0.01f);
  }
  // Units without kernels are not the policy's choice.
  ParameterStore store;
  const SchedulerNetwork network{store, options, 1};
  const std::vector<std::uint8_t> all_on_cpu(task.world.num_units());
  Placement best = task.world.placement_of(
      network.draw(store, task.world, network.embed(store, task.world), {.forced = all_on_cpu}, nullptr)
          .device_of_unit);
  task.constraints.repair(best);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_LT(means[1] - cost_of(best), 0.6f * (means[0] - cost_of(best)));
}

TEST(SchedulerPlacer, RefusesActionsOfOthersAndImpossibleNumbers) {
  const Scheduled task{5, 30, machine()};
  const auto placer = placer_of(task);
  const Placement best = placer->greedy();
  for (std::uint64_t episode = 0; episode < 10; ++episode) {
    const Actions good = placer->sample_from({&best, 1}, episode, 0);
    for (std::size_t length = 0; length < good.bytes.size(); ++length)
      EXPECT_FALSE(placer->expand({Bytes(good.bytes.begin(), good.bytes.begin() + length)}).ok()) << length;
    for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{9},
                                 good.bytes.size() - 1}) {  // Graph, granularity, head, a device.
      Actions damaged = good;
      damaged.bytes[at] = std::byte{200};
      EXPECT_FALSE(placer->expand(damaged).ok()) << at;
    }
    const ScoredEpisode short_of_advantages{good, {1}};
    EXPECT_FALSE(placer->accumulate_gradient({&short_of_advantages, 1}).ok());
  }
  SchedulerOptions wrong = small();
  wrong.embedding = 0;
  const auto refused = SchedulerPlacer::make({{&task.constraints, {task.world}, {}}}, wrong, 1);
  EXPECT_NE(refused.error().context.find("embedding = 0: expected 1 to 1024"), std::string::npos);
  EXPECT_FALSE(SchedulerPlacer::make({}, small(), 1).ok());
  EXPECT_FALSE(SchedulerPlacer::make({{&task.constraints, {}, {}}}, small(), 1).ok());
}

TEST(SchedulerPlacer, RefusesAForbiddenDevice) {
  // Each device has room for a third of the units, so no walk places all on one.
  const Scheduled task{5, 30, testing::sample_devices(3, false, 1 << 14), 1 << 10};
  const auto placer = placer_of(task);
  Actions crammed = placer->sample(0, 0);
  const std::size_t devices = 3 * task.world.num_units();
  for (auto at = crammed.bytes.end() - static_cast<std::ptrdiff_t>(devices); at != crammed.bytes.end(); ++at)
    *at = std::byte{0};
  const ScoredEpisode episode{crammed, {1, 2, 3}};
  const auto refused = placer->accumulate_gradient({&episode, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("closed device"), std::string::npos);
}

}  // namespace
}  // namespace emplace::policy
