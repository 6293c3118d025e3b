// Goal: the demand is the number of executors that a run keeps busy. Method: by hand, and in a simulated run
// with a closed pipeline, where as many executors as are wanted must leave no work waiting.
#include "runtime/core/demand.h"

#include <gtest/gtest.h>

#include <queue>
#include <vector>

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Demand, IsZeroWithoutWork) {
  Demand demand{{}};
  EXPECT_EQ(demand.wanted(0, 0, seconds{1}), 0u);
}

TEST(Demand, IsOneBeforeTheFirstMeasurement) {
  Demand demand{{}};
  demand.proposed(100, seconds{1});
  EXPECT_EQ(demand.wanted(100, 25, seconds{1}), 1u);
}

TEST(Demand, IsWaitingWorkOverTheRateOfOneExecutor) {
  Demand demand{{}};
  demand.measured(0.25, 4);                           // Four placements a second.
  EXPECT_EQ(demand.wanted(10, 100, seconds{1}), 3u);  // ceil(10 / 4)
  EXPECT_EQ(demand.wanted(400, 8, seconds{1}), 8u);   // No more than there are leases.
}

TEST(Demand, StaysWithinItsMaximum) {
  Demand demand{{.max_executors = 3}};
  demand.measured(1, 1);
  EXPECT_EQ(demand.wanted(50, 50, seconds{1}), 3u);
}

TEST(Demand, RisesAtOnceAndFallsWithTheTimeConstant) {
  Demand demand{{.memory = seconds{5}}};
  demand.measured(1, 1);
  EXPECT_EQ(demand.wanted(10, 10, seconds{10}), 10u);
  EXPECT_EQ(demand.wanted(0, 1, seconds{15}), 4u);  // ceil(10 / e)
  EXPECT_EQ(demand.wanted(0, 1, seconds{60}), 1u);
  EXPECT_EQ(demand.wanted(0, 0, seconds{120}), 0u);
}

TEST(Demand, ArrivalsCountWhileNothingWaits) {
  Demand demand{{.memory = seconds{5}}};
  for (int i = 0; i < 600; ++i) {  // Ten placements a second, each of 300 ms: three executors are busy.
    demand.proposed(1, milliseconds{100} * i);
    demand.measured(0.3, 1);
  }
  EXPECT_EQ(demand.wanted(0, 16, milliseconds{60'000}), 3u);
}

/// A sampler with `outstanding` leases of one placement each, proposed again when measured; executors take
/// 300 ms, and their number follows the demand. Returns the executors after a minute.
std::uint32_t settled(std::uint32_t outstanding) {
  Demand demand{{}};
  constexpr Nanos kTakes = milliseconds{300}, kTick = milliseconds{50};
  std::vector<Nanos> busy;  // End of each running measurement.
  std::uint32_t waiting = outstanding, executors = 0;
  demand.proposed(outstanding, Nanos{0});
  for (Nanos now{0}; now < seconds{60}; now += kTick) {
    const auto done = std::erase_if(busy, [&](Nanos end) { return end <= now; });
    for (std::size_t i = 0; i < done; ++i) demand.measured(0.3, 1);
    waiting += static_cast<std::uint32_t>(done);
    if (done > 0) demand.proposed(static_cast<std::uint32_t>(done), now);
    executors = demand.wanted(waiting, waiting + busy.size(), now);
    for (; waiting > 0 && busy.size() < executors; --waiting) busy.push_back(now + kTakes);
  }
  return executors;
}

TEST(Demand, ClosedPipelineGetsAnExecutorPerOutstandingPlacement) {
  for (const std::uint32_t outstanding : {1u, 2u, 4u, 8u, 32u})
    EXPECT_EQ(settled(outstanding), outstanding) << "outstanding: " << outstanding;
}

}  // namespace
}  // namespace emplace::runtime
