// Goal: the answer of a robust search is near the fastest placement without noise, never worse than it under
// the search's noise, better in noise that the search has not seen, and the search ends on request. Method:
// small graphs, and a clock that advances with each reading, so that a search is a function of its seed.
#include "solver/search/robust.h"
#include "solver/methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "tests/solver/world.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::World;

/// Advances by a millisecond with each reading.
class CountingClock final : public Clock {
 public:
  [[nodiscard]] Nanos now() const override { return now_ += Nanos{1'000'000}; }
  [[nodiscard]] Nanos wall() const override { return now_; }

 private:
  mutable Nanos now_{};
};

constexpr std::uint32_t kDraws = 48, kUnseen = 300;
constexpr Jitter kNoise{.times = 0.15};

struct RobustSearch {
  RobustSearch(std::uint64_t seed, std::int64_t memory)
      : world{testing::layered_graph(rng = Rng{seed, Purpose::kTest}, 120),
              testing::sample_devices(3, false, memory)} {}
  Result<Answer> run(std::span<const Placement> starts, double seconds) {
    Problem problem = world.problem();
    problem.context = testing::budget(clock, seconds);
    problem.context.stopped = stopped;
    return search_robust(problem, {.noise = Noise{kNoise, kDraws}}, starts);
  }
  double p90(const Placement& placement, std::uint32_t draws, std::uint32_t first) {
    JitteredSimulator simulator{world.graph, world.devices, Dispatch::kProgram, kNoise};
    return simulator.measure_draws(placement, draws, first)->quantile(0.9);
  }
  Placement fast() { return world.run(*find_method("anneal").value())->placement; }

  Rng rng{1, Purpose::kTest};
  World world;
  CountingClock clock;
  std::function<bool()> stopped;
};

TEST(Robust, AnswerIsRobustAndNearTheFastest) {
  double unseen = 0, fastest_unseen = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    RobustSearch search{seed, kPlenty};
    const Placement start = search.fast();
    const auto found = search.run({&start, 1}, 6);
    ASSERT_TRUE(found.ok()) << found.error().context;
    const Placement& answer = found->placement;
    EXPECT_TRUE(search.world.constraints.check(search.world.graph, search.world.devices, answer).ok());
    Measurement measured;
    ASSERT_TRUE(search.world.simulator.measure(answer, measured).ok());
    EXPECT_EQ(measured, found->measurement);
    EXPECT_LE(measured.step_time_s, 1.02 * found->fastest.front().measurement.step_time_s);
    ASSERT_TRUE(search.world.simulator.measure(start, measured).ok());
    EXPECT_LE(found->fastest.front().measurement.step_time_s, measured.step_time_s);
    EXPECT_LE(search.p90(answer, kDraws, kFirstSearchDraw),
              search.p90(found->fastest.front().placement, kDraws, kFirstSearchDraw));
    EXPECT_GT(found->evaluations, 100u);
    unseen += search.p90(answer, kUnseen, 0);
    fastest_unseen += search.p90(found->fastest.front().placement, kUnseen, 0);
  }
  EXPECT_LT(unseen, 0.99 * fastest_unseen) << "its gain is not the luck of its draws";
}

TEST(Robust, OneThreadIsReproducible) {
  RobustSearch one{4, kPlenty}, again{4, kPlenty};
  const Placement start = one.fast();
  const auto first = one.run({&start, 1}, 2), second = again.run({&start, 1}, 2);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->placement, second->placement);
  EXPECT_EQ(first->evaluations, second->evaluations);
}

TEST(Robust, SeveralThreadsGiveOneAnswer) {
  RobustSearch search{4, kPlenty};
  const Placement start = search.fast();
  const SystemClock clock;
  Problem problem = search.world.problem();
  problem.context = testing::budget(clock, 0.3);
  problem.context.threads = 3;
  const auto found = search_robust(problem, {.noise = Noise{kNoise, kDraws}}, {&start, 1});
  ASSERT_TRUE(found.ok());
  EXPECT_LE(found->measurement.step_time_s, 1.02 * found->fastest.front().measurement.step_time_s);
  EXPECT_LE(search.p90(found->placement, kDraws, kFirstSearchDraw),
            search.p90(start, kDraws, kFirstSearchDraw));
}

TEST(Robust, DrawThatDoesNotFitIsWorseThanASlowStep) {
  // Memory is what a fast placement needs, to the byte. Some draws of noise need more.
  std::uint32_t fewer = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    RobustSearch roomy{seed, kPlenty};
    const Placement start = roomy.fast();
    Measurement measured;
    ASSERT_TRUE(roomy.world.simulator.measure(start, measured).ok());
    RobustSearch tight{seed, *std::ranges::max_element(measured.peak_bytes)};
    JitteredSimulator simulator{tight.world.graph, tight.world.devices, Dispatch::kProgram, kNoise};
    const std::uint32_t before = simulator.measure_draws(start, kDraws, kFirstSearchDraw)->over;
    if (before == 0) continue;
    const auto found = tight.run({&start, 1}, 4);
    ASSERT_TRUE(found.ok());
    const std::uint32_t after = simulator.measure_draws(found->placement, kDraws, kFirstSearchDraw)->over;
    EXPECT_LE(after, before);
    fewer += before - after;
  }
  EXPECT_GT(fewer, 0u);
}

TEST(Robust, EndsOnRequestWithTheBestOfItsStarts) {
  RobustSearch search{6, kPlenty};
  const Placement start = search.fast(), slow(search.world.graph.num_ops(), DeviceId{0});
  search.stopped = [] { return true; };
  const std::vector<Placement> starts{slow, start};
  for (const double seconds : {0.0, 6.0}) {
    const auto found = search.run(starts, seconds);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->placement, start);
    EXPECT_EQ(found->fastest.front().placement, start);
    EXPECT_EQ(found->evaluations, 0u);
  }
}

TEST(Robust, RefusesAbsentNoiseAndStartsThatDoNotFit) {
  RobustSearch search{7, 1};
  const Placement start(search.world.graph.num_ops(), DeviceId{0});
  EXPECT_EQ(search.run({&start, 1}, 1).error().code, Errc::kNoPlacement);
  EXPECT_EQ(search.run({}, 1).error().code, Errc::kNoPlacement);
  Problem problem = search.world.problem();
  problem.context = testing::budget(search.clock, 1);
  for (const Judge& judge : {Judge{.objective = Objective::kMaxLoad}, Judge{.placeto = true}})
    EXPECT_EQ(search_robust(problem, {.judge = judge}, {&start, 1}).error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace emplace
