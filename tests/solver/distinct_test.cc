// Goal: distinct placements are far from each other, nearly as fast as the fastest, and not equal up to an
// exchange of equal devices. Method: small graphs, and a clock that advances with each reading.
#include "solver/search/distinct.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/solver/world.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::World;

/// Advances by a millisecond with each reading.
class TickingClock final : public Clock {
 public:
  [[nodiscard]] Nanos now() const override { return now_ += std::chrono::milliseconds{1}; }
  [[nodiscard]] Nanos wall() const override { return now_; }

 private:
  mutable Nanos now_{};
};

TEST(Distinct, DistanceIsTheShareOfMovedWorkUpToNamesOfEqualDevices) {
  const World world{testing::sample_graph({{"a", {}, {1}, 6}, {"b", {}, {1}, 3}, {"c", {}, {1}, 1}}),
                    testing::sample_devices(2, true, kPlenty)};
  const PlacementDistance distance{world.problem()};
  constexpr DeviceId kCpu{0}, kOne{1}, kTwo{2};
  const auto between = [&](const Placement& a, const Placement& b) { return distance.between(a, b); };
  EXPECT_NEAR(between({kOne, kOne, kTwo}, {kOne, kOne, kTwo}), 0, 1e-12);
  EXPECT_NEAR(between({kOne, kOne, kTwo}, {kTwo, kTwo, kOne}), 0, 1e-12) << "equal devices exchanged";
  EXPECT_NEAR(between({kOne, kOne, kTwo}, {kOne, kTwo, kTwo}), 0.3, 1e-12);
  EXPECT_NEAR(between({kOne, kOne, kOne}, {kCpu, kOne, kOne}), 0.6, 1e-12) << "a CPU equals no GPU";
  EXPECT_NEAR(between({kOne, kOne, kOne}, {kCpu, kCpu, kCpu}), 1, 1e-12);
}

TEST(Distinct, FindsDistinctPlacementsThatAreNearlyAsFast) {
  Rng rng{1, Purpose::kTest};
  World world{testing::layered_graph(rng, 120), testing::sample_devices(3, false, kPlenty)};
  const auto first = world.run(*find_method("anneal").value());
  ASSERT_TRUE(first.ok());
  const TickingClock clock;
  Problem problem = world.problem();
  problem.context = testing::budget(clock, 12);
  const auto found = search_distinct(problem, {.best_of = 4}, *first);
  ASSERT_TRUE(found.ok()) << found.error().context;
  EXPECT_GE(found->size(), 2u);
  EXPECT_LE(found->size(), 4u);
  const PlacementDistance distance{world.problem()};
  for (std::size_t k = 0; k < found->size(); ++k) {
    const Answer& one = (*found)[k];
    Measurement measured;
    ASSERT_TRUE(world.simulator.measure(one.placement, measured).ok());
    EXPECT_EQ(measured, one.measurement);
    EXPECT_LE(measured.step_time_s, 1.02 * found->front().measurement.step_time_s);
    if (k > 0) {
      EXPECT_GE(measured.step_time_s, (*found)[k - 1].measurement.step_time_s);
    }
    for (std::size_t other = 0; other < k; ++other)
      EXPECT_GE(distance.between(one.placement, (*found)[other].placement), 0.05);
  }
}

TEST(Distinct, ReturnsOnlyTheFirstWithoutTimeOrAfterAStop) {
  Rng rng{2, Purpose::kTest};
  World world{testing::layered_graph(rng, 40), testing::sample_devices(2, false, kPlenty)};
  const auto first = world.run(*find_method("expert").value());
  ASSERT_TRUE(first.ok());
  const TickingClock clock;
  Problem problem = world.problem();
  problem.context = testing::budget(clock, 0);
  const Request request{.best_of = 8};
  EXPECT_EQ(search_distinct(problem, request, *first)->size(), 1u);
  problem.context = testing::budget(clock, 3600);
  problem.context.stopped = [] { return true; };
  const auto found = search_distinct(problem, request, *first);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().placement, first->placement);
  const Request latency{.judge = {.objective = Objective::kLatency}, .best_of = 8};
  EXPECT_EQ(search_distinct(problem, latency, *first).error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace emplace
