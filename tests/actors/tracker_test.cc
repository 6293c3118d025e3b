// Goal: the baseline tracker turns costs into advantages, as a function of the recorder's log. Method:
// messages delivered by hand in a simulated world.
#include <gtest/gtest.h>

#include <cmath>

#include "actors/baseline_tracker.h"
#include "actors/scoring.h"
#include "actors/task.h"
#include "actors/view_actor.h"
#include "messages/measured_values.h"
#include "tests/runtime/sim/world.h"

namespace emplace::actors {
namespace {

using messages::EpisodeCommitted;
using messages::EpisodeScored;
using runtime::sim::World;

EpisodeCommitted committed(std::uint64_t episode, std::vector<double> step_times_s,
                           std::vector<std::uint8_t> valid, std::uint64_t version = 0,
                           std::uint64_t seq = 0) {
  EpisodeCommitted c;
  c.seq = seq == 0 ? episode + 1 : seq;
  messages::EpisodeMeasured& m = c.measured;
  m.episode = episode;
  m.count = static_cast<std::uint32_t>(step_times_s.size());
  m.num_devices = 1;
  m.placement_id = episode * 1000;
  m.policy_version = version;
  m.executors = {"executor/0"};
  m.executor_kinds = {"sim"};
  m.hosts = {"here"};
  m.resize(m.count, m.num_devices);
  m.step_time_s = std::move(step_times_s);
  m.valid = std::move(valid);
  return c;
}

TEST(BaselineTracker, MovesFromTheFailingSignalTowardsTheCost) {
  World world;
  TrackerOptions options;
  options.baseline.failing_signal = 8;
  options.baseline.decay = 0.75;
  options.baseline.start_at_failing_signal = true;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  world.deliver(tracker, committed(0, {16.0}, {1}));  // R = 4, so B moves to 6 + 1.
  EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().advantages[0], 4.0 - 8.0);
  world.deliver(tracker, committed(1, {16.0}, {1}));
  EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().advantages[0], 4.0 - 7.0);
  EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().baseline, 7.0);
}

// Whatever passes wrong_values() gives advantages that are finite as float32, at the bounds too and where all
// costs are equal.
TEST(Scoring, ValidMeasurementsHaveFiniteAdvantages) {
  const std::vector<double> times{5e-324, 1e-300, 1e-9, 1, 1, 1, messages::kLongestMeasuredS};
  const std::vector<std::int64_t> bytes{0, 1, messages::kMaxMeasuredBytes};
  for (const auto transform :
       {policy::Transform::kIdentity, policy::Transform::kSqrt, policy::Transform::kLog})
    for (const auto kind : {policy::BaselineKind::kMovingAverage, policy::BaselineKind::kMean,
                            policy::BaselineKind::kStepMean, policy::BaselineKind::kSelfCritic})
      for (const auto returns : {policy::Returns::kPlacement, policy::Returns::kIntermediate})
        for (const bool graded : {false, true}) {
          ScoringOptions options;
          options.reward.transform = transform;
          options.reward.graded_memory = options.fits_first = graded;
          options.baseline.kind = kind;
          options.baseline.returns = returns;
          options.baseline.normalise = graded;
          Scoring scoring{options};
          Rng rng{7, Purpose::kTest};
          for (std::uint64_t episode = 0; episode < 50; ++episode) {
            EpisodeCommitted c = committed(episode, {1, 1, 1, 1}, {1, 1, 1, 1});
            for (std::size_t i = 0; i < 4 && episode % 5 > 0; ++i) {  // Every fifth is all equal.
              c.measured.step_time_s[i] = times[rng.below(static_cast<std::uint32_t>(times.size()))];
              c.measured.bytes_over[i] = bytes[rng.below(3)];
              c.measured.valid[i] = rng.below(2) == 0 ? 1 : 0;
              if (c.measured.valid[i] == 0 && rng.below(2) == 0) c.measured.step_time_s[i] = 0;
            }
            ASSERT_EQ(messages::wrong_values(c.measured), "");
            for (const double advantage : scoring.score(c).advantages)
              ASSERT_TRUE(std::isfinite(static_cast<float>(advantage))) << advantage;
          }
        }
}

TEST(Scoring, MeasuredStartHasNoAdvantage) {
  ScoringOptions options;
  options.reward.transform = policy::Transform::kIdentity;
  options.per = BaselinePer::kRun;
  options.baseline.kind = policy::BaselineKind::kStepMean;
  options.baseline.returns = policy::Returns::kIntermediate;
  options.baseline.start_measured = true;
  Scoring scoring{options};
  EXPECT_EQ(scoring.score(committed(0, {7, 5, 4}, {1, 1, 1})).advantages, (std::vector<double>{0, 0}));
  const EpisodeScored second = scoring.score(committed(1, {9, 5, 3}, {1, 1, 1}));
  EXPECT_EQ(second.costs, (std::vector<double>{9, 5, 3}));
  EXPECT_EQ(second.advantages, (std::vector<double>{-3, -1})) << "(-4, -2) and (-3, -1) to the end";
}

TEST(Scoring, PenaltyIsThatOfTheDeviceThatLacksMost) {
  ScoringOptions options;
  options.reward.transform = policy::Transform::kIdentity;
  options.reward.graded_memory = true;
  options.reward.penalty_base = 0;
  options.reward.penalty_per_gb = 2;
  EpisodeCommitted episode = committed(0, {1}, {0});
  episode.measured.graph_sha256 = "graph";
  episode.measured.num_devices = 2;
  episode.measured.resize(1, 2);
  episode.measured.step_time_s = {1};
  episode.measured.peak_bytes = {5'000'000'000, 4'000'000'000};
  episode.measured.bytes_over = {3'000'000'000};
  options.memory["graph"].bytes = {3'000'000'000, 3'000'000'000};
  EXPECT_EQ(Scoring{options}.score(episode).costs[0], 1 + 2 * 3.0);
  options.reward.excess = policy::Excess::kMax;
  EXPECT_EQ(Scoring{options}.score(episode).costs[0], 1 + 2 * 2.0);
  options.memory.clear();
  EXPECT_EQ(Scoring{options}.score(episode).costs[0], 1 + 2 * 3.0) << "another graph's machine is unknown";
}

TEST(BaselineTracker, LateFailuresNeitherTeachNorMoveTheBaseline) {
  World world;
  TrackerOptions options;
  options.valid_only_after = 10;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  world.deliver(tracker, committed(0, {4.0}, {1}, 10));
  world.deliver(tracker, committed(1, {4.0}, {0}, 10));
  const auto late = world.last_sent<EpisodeScored>();
  EXPECT_EQ(late.counted[0], 0);
  EXPECT_DOUBLE_EQ(late.advantages[0], 0.0);
  world.deliver(tracker, committed(2, {4.0}, {1}, 10));
  EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().baseline, 2.0);
  world.deliver(tracker, committed(3, {4.0}, {0}, 9));
  EXPECT_EQ(world.last_sent<EpisodeScored>().counted[0], 1) << "before the switch failures count";
  EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().costs[0], 10.0);
}

/// Placements 0 and 2 were measured on "fast", placement 1 on "slow".
EpisodeCommitted committed_on_two_hosts(std::uint64_t episode, std::vector<double> step_times_s) {
  EpisodeCommitted c = committed(episode, std::move(step_times_s), {1, 1, 1});
  c.measured.controller = static_cast<std::uint32_t>(episode % 2);
  c.measured.executors = {"executor/0", "executor/1"};
  c.measured.executor_kinds = {"sim", "sim"};
  c.measured.hosts = {"fast", "slow"};
  c.measured.executor_of = {0, 1, 0};
  return c;
}

// Cost R = step time. Per host B_fast starts at the mean of its own, (1 + 3) / 2, and B_slow at 16.
TEST(BaselineTracker, KeepsABaselinePerHost) {
  World world;
  TrackerOptions options;
  options.reward.transform = policy::Transform::kIdentity;
  options.baseline.kind = policy::BaselineKind::kMean;
  options.per = BaselinePer::kHost;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  world.deliver(tracker, committed_on_two_hosts(0, {1, 16, 3}));
  EXPECT_EQ(world.last_sent<EpisodeScored>().advantages, (std::vector<double>{-1, 0, 1}));
  EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().baseline, (2 * 2 + 16) / 3.0);
  world.deliver(tracker, committed_on_two_hosts(1, {4, 12, 1}));
  EXPECT_EQ(world.last_sent<EpisodeScored>().advantages, (std::vector<double>{2, -4, -1}))
      << "the same for all samplers";
}

TEST(BaselineTracker, KeepsABaselinePerRunOrPerController) {
  for (const BaselinePer per : {BaselinePer::kRun, BaselinePer::kController}) {
    World world;
    TrackerOptions options;
    options.reward.transform = policy::Transform::kIdentity;
    options.baseline.kind = policy::BaselineKind::kMean;
    options.per = per;
    const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
    world.deliver(tracker, committed_on_two_hosts(0, {1, 4, 1}));
    world.deliver(tracker, committed_on_two_hosts(1, {8, 8, 8}));
    EXPECT_DOUBLE_EQ(world.last_sent<EpisodeScored>().baseline, per == BaselinePer::kRun ? 2.0 : 8.0);
  }
}

// Of the costs 1 and 3, ten of each: median 2, MAD 1, so with k = 4 an outlier is above 6.
TEST(BaselineTracker, OutliersDoNotCount) {
  World world;
  TrackerOptions options;
  options.reward.transform = policy::Transform::kIdentity;
  options.outlier = 4;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  for (std::uint64_t e = 0; e < 10; ++e) {
    world.deliver(tracker, committed(e, {1, 3}, {1, 1}));
    EXPECT_EQ(world.last_sent<EpisodeScored>().counted, (std::vector<std::uint8_t>{1, 1}));
  }
  world.deliver(tracker, committed(10, {6, 7, 7}, {1, 1, 0}));
  const auto scored = world.last_sent<EpisodeScored>();
  EXPECT_EQ(scored.counted, (std::vector<std::uint8_t>{1, 0, 1})) << "what does not fit is no noise";
  EXPECT_DOUBLE_EQ(scored.advantages[1], 0);
  // Read again from the log, the scores are the same.
  world.crash(tracker);
  world.restart(tracker);
  world.clear_log();
  for (std::uint64_t e = 0; e < 10; ++e) world.deliver(tracker, committed(e, {1, 3}, {1, 1}));
  world.deliver(tracker, committed(10, {6, 7, 7}, {1, 1, 0}));
  EXPECT_EQ(world.last_sent<EpisodeScored>().counted, scored.counted);
  EXPECT_EQ(world.last_sent<EpisodeScored>().advantages, scored.advantages);
}

TEST(BaselineTracker, AdaptivePenaltyGrowsWhileNothingFits) {
  World world;
  TrackerOptions options;
  options.reward = {policy::Transform::kLog, 100, true, 0.2, 0.5};
  options.valid_target = 0.5;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  const auto cost_of = [&](std::uint64_t episode, std::uint8_t valid, std::int64_t over) {
    EpisodeCommitted c = committed(episode, {1.0, 1.0}, {valid, valid});
    c.measured.bytes_over = {over, over};
    world.deliver(tracker, c);
    const auto scored = world.last_sent<EpisodeScored>();
    EXPECT_EQ(scored.costs[0], scored.costs[1]) << "one penalty for an episode";
    return scored.costs[0];
  };
  EXPECT_DOUBLE_EQ(cost_of(0, 0, 1'000'000'000), 0.7);
  EXPECT_NEAR(cost_of(1, 0, 1'000'000'000), 0.7 * std::exp(0.01), 1e-12);
  EXPECT_DOUBLE_EQ(cost_of(2, 1, 0), 0);
  EXPECT_NEAR(cost_of(3, 0, 1'000'000'000), 0.7 * std::exp(0.01), 1e-12);
  // A crash is not a lack of memory.
  EXPECT_NEAR(cost_of(4, 0, 0), 0.2 * std::exp(0.02), 1e-12);
  EXPECT_NEAR(cost_of(5, 0, 1'000'000'000), 0.7 * std::exp(0.02), 1e-12);
}

// Costs are step times; what does not fit is 1 GB above its cap: + 0.2 + 0.5.
TEST(BaselineTracker, InfeasiblePlacementsNeverBeatTheBestFeasibleOne) {
  World world;
  TrackerOptions options;
  options.reward = {policy::Transform::kIdentity, 100, true, 0.2, 0.5};
  options.fits_first = true;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  const auto costs_of = [&](std::uint64_t episode, std::vector<double> step_time_s,
                            std::vector<std::uint8_t> valid) {
    EpisodeCommitted c = committed(episode, step_time_s, valid);
    c.measured.bytes_over.clear();
    for (const std::uint8_t fits : valid) c.measured.bytes_over.push_back(fits != 0 ? 0 : 1'000'000'000);
    world.deliver(tracker, c);
    return world.last_sent<EpisodeScored>().costs;
  };
  const auto expect_costs = [](const std::vector<double>& costs, const std::vector<double>& wanted) {
    ASSERT_EQ(costs.size(), wanted.size());
    for (std::size_t i = 0; i < costs.size(); ++i) EXPECT_DOUBLE_EQ(costs[i], wanted[i]) << i;
  };
  // Nothing fits: the costs differ by the bytes above the cap alone, from the slowest placement on.
  expect_costs(costs_of(0, {1.0, 3.0}, {0, 0}), {3.7, 3.7});
  // A crash has no step time.
  expect_costs(costs_of(1, {2.0, 0.0}, {0, 0}), {3.7, 100});
  // The first feasible placement is the reference, also for placements before it in its episode.
  expect_costs(costs_of(2, {1.0, 5.0}, {0, 1}), {5.7, 5.0});
  expect_costs(costs_of(3, {4.0, 1.0}, {1, 0}), {4.0, 4.7});
  expect_costs(costs_of(4, {9.0, 1.0}, {1, 0}), {9.0, 4.7});
  // Another graph has its own reference.
  EpisodeCommitted other = committed(5, {1.0, 2.0}, {0, 0});
  other.measured.graph_sha256 = "another";
  other.measured.bytes_over = {1'000'000'000, 1'000'000'000};
  world.deliver(tracker, other);
  expect_costs(world.last_sent<EpisodeScored>().costs, {2.7, 2.7});
}

TEST(BaselineTracker, TakesEpisodesInOrderIfAsked) {
  World world;
  TrackerOptions options;
  options.ordered = true;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  world.deliver(tracker, committed(1, {1.0}, {1}, 0, 1));
  EXPECT_TRUE(world.sent<EpisodeScored>().empty());
  world.deliver(tracker, committed(0, {4.0}, {1}, 0, 2));
  const auto scored = world.sent<EpisodeScored>();
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_EQ(scored[0].episode, 0u);
  EXPECT_EQ(scored[1].episode, 1u);
}

TEST(BaselineTracker, RestartedTrackerReadsTheLogAndSendsOnlyUnlearnedScores) {
  World world;
  TrackerOptions options;
  options.reward.transform = policy::Transform::kIdentity;
  options.baseline.decay = 0.5;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, options);
  for (std::uint64_t e = 0; e < 4; ++e)
    world.deliver(tracker, committed(e, {std::exp2(static_cast<double>(e))}, {1}));
  const std::vector<double> first = world.last_sent<EpisodeScored>().advantages;
  world.crash(tracker);
  world.restart(tracker);
  EXPECT_EQ(world.last_sent<messages::LogRequested>().from_seq, 1u);
  world.clear_log();
  for (std::uint64_t e = 0; e < 4; ++e) {
    EpisodeCommitted again = committed(e, {std::exp2(static_cast<double>(e))}, {1});
    again.learned = e < 3;
    world.deliver(tracker, again);
    world.deliver(tracker, again);  // Delivered twice, counted once.
  }
  ASSERT_EQ(world.sent<EpisodeScored>().size(), 1u);
  EXPECT_EQ(world.last_sent<EpisodeScored>().advantages, first);
  world.deliver(tracker, messages::ScoresRequested{2});
  EXPECT_EQ(world.sent<EpisodeScored>().size(), 4u) << "three more, sent again";
}

TEST(BaselineTracker, RequestsAMissingEpisodeAgain) {
  World world;
  const auto tracker = world.spawn<BaselineTracker>(kTracker, TrackerOptions{});
  world.deliver(tracker, committed(0, {1.0}, {1}));
  world.clear_log();
  world.deliver(tracker, committed(2, {1.0}, {1}));
  EXPECT_TRUE(world.sent<EpisodeScored>().empty()) << "not out of order";
  world.advance(std::chrono::seconds{1});
  const auto asked = world.last_sent<messages::LogRequested>();
  EXPECT_EQ(asked.from_seq, 2u);
  EXPECT_TRUE(asked.again);
}

/// A dispatcher with a task of four ops on two devices.

/// A recorder that records every result, and a dispatcher that reports every result: neither refuses
/// repetitions. Here the test plays both.
TEST(BaselineTracker, ReportsPlacementsConsumedTwice) {
  World world;
  messages::RunProgress shown;
  const auto view = world.spawn<ViewActor>(kView, messages::StatusDelivered{},
                                           [&](const messages::RunProgress& progress) { shown = progress; });
  const auto tracker = world.spawn<BaselineTracker>(kTracker, TrackerOptions{});
  world.deliver(tracker, committed(0, {4.0}, {1}, 0, 1));
  world.deliver(tracker, committed(1, {4.0}, {1}, 0, 2));
  world.advance(std::chrono::seconds{1});
  world.deliver(view, messages::DispatchProgress{});
  EXPECT_EQ(shown.duplicated, 0u);
  world.deliver(tracker, committed(1, {4.0}, {1}, 0, 3));
  world.advance(std::chrono::seconds{1});
  world.deliver(view, messages::DispatchProgress{});
  EXPECT_EQ(shown.duplicated, 1u);
  EXPECT_EQ(world.last_sent<messages::ConsumedTwice>().placement_ids, std::vector<std::uint64_t>{1000});
}

}  // namespace
}  // namespace emplace::actors
