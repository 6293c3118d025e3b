// Goal: a job array grows with the demand at once, shrinks only after the demand was low for a while, and its
// controller is called rarely. Method: demands and times written by the test; no batch system, no clock.
#include "launcher/cluster/hosts/array_throttle.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "launcher/cluster/hosts/elastic_nodes.h"

namespace emplace::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ThrottleOptions kEight{.max_tasks = 8};

TEST(ArrayThrottle, FollowsARisingDemandAtOnceUpToItsLimit) {
  ArrayThrottle throttle{kEight};
  EXPECT_EQ(throttle.change(1, seconds{0}), std::nullopt) << "an array starts with one task";
  EXPECT_EQ(throttle.change(3, seconds{1}), 3u);
  EXPECT_EQ(throttle.change(3, seconds{10}), std::nullopt) << "no change";
  EXPECT_EQ(throttle.change(500, seconds{11}), 8u);
  EXPECT_EQ(throttle.change(1'000'000, seconds{20}), std::nullopt) << "it is at its limit";
}

TEST(ArrayThrottle, WaitsBetweenChangesAndThenUsesTheNewest) {
  ArrayThrottle throttle{kEight};
  EXPECT_EQ(throttle.change(2, milliseconds{0}), 2u);
  EXPECT_EQ(throttle.change(3, milliseconds{1}), std::nullopt);
  EXPECT_EQ(throttle.change(4, milliseconds{1'999}), std::nullopt);
  EXPECT_EQ(throttle.change(5, milliseconds{2'000}), 5u);
}

TEST(ArrayThrottle, ShrinksToTheHighestRecentDemand) {
  ArrayThrottle throttle{kEight};
  EXPECT_EQ(throttle.change(7, seconds{0}), 7u);
  EXPECT_EQ(throttle.change(2, seconds{1}), std::nullopt);
  EXPECT_EQ(throttle.change(4, seconds{6}), std::nullopt);
  EXPECT_EQ(throttle.change(0, seconds{7}), std::nullopt);
  EXPECT_EQ(throttle.change(0, seconds{10}), std::nullopt) << "seven were wanted 10 s ago";
  EXPECT_EQ(throttle.change(0, seconds{11}), 4u);
  EXPECT_EQ(throttle.change(0, seconds{16}), std::nullopt);
  EXPECT_EQ(throttle.change(0, seconds{17}), 0u) << "the demand of 0 has lasted";
  EXPECT_EQ(throttle.change(1, seconds{19}), 1u);
}

TEST(ArrayThrottle, CountsExecutorsPerTask) {
  ArrayThrottle throttle{{.max_tasks = 8, .executors_per_task = 4}};
  EXPECT_EQ(throttle.change(5, seconds{0}), 2u);
  EXPECT_EQ(throttle.change(8, seconds{2}), std::nullopt);
  EXPECT_EQ(throttle.change(9, seconds{4}), 3u);
  EXPECT_EQ(throttle.change(0xffff'ffff, seconds{6}), 8u);
}

TEST(ArrayThrottle, RepeatsItsOrderAfterARestart) {
  ArrayThrottle throttle{kEight};
  EXPECT_EQ(throttle.change(6, seconds{0}), 6u);
  throttle.restart();
  EXPECT_EQ(throttle.change(6, seconds{1}), 6u);
}

TEST(ArrayThrottle, MeetsAnyDemandWithFewChanges) {
  Rng rng{7, Purpose::kTest};
  ArrayThrottle throttle{kEight};
  std::uint32_t tasks = ArrayThrottle::kFirst;
  Nanos now{0}, last{seconds{-100}}, met{0};
  std::vector<std::pair<Nanos, std::uint32_t>> past;
  for (int step = 0; step < 20'000; ++step) {
    now += milliseconds{1 + rng.below(2'000)};
    const std::uint32_t demand = rng.below(4) == 0 ? rng.below(20) : rng.below(3);
    past.emplace_back(now, demand);
    if (const auto change = throttle.change(demand, now)) {
      EXPECT_NE(*change, tasks);
      EXPECT_GE(now - last, Nanos{seconds{2}});
      tasks = *change;
      last = now;
    }
    if (tasks >= std::min(demand, 8u)) met = now;
    EXPECT_LE(now - met, Nanos{seconds{2} + seconds{2}}) << "a demand waits only for the last change";
    std::uint32_t highest = 0;
    for (auto one = past.rbegin(); one != past.rend() && now - one->first <= seconds{10}; ++one)
      highest = std::max(highest, std::min(one->second, 8u));
    if (now - last >= seconds{2}) {
      EXPECT_EQ(tasks, highest);
    }
  }
}

NodePlan plan(const std::string& name, std::vector<std::string> actors, std::uint32_t most = 0,
              std::uint32_t each = 1) {
  NodePlan one;
  one.name = one.node = name;
  one.actors = std::move(actors);
  one.max_processes = most;
  one.executors_each = each;
  return one;
}

TEST(ElasticNodes, ShareTheRemainingDemandInOrder) {
  const std::vector<std::vector<NodePlan>> members{
      {plan("head", {"sampler/0", "executor/0"})},
      {plan("fixed/0", {"executor/1"}), plan("fixed/1", {"executor/2"})},
      {plan("first", {}, 3, 2)},
      {plan("second", {}, 10)}};
  ElasticNodes nodes{members};
  using Lines = std::map<std::size_t, std::string>;
  EXPECT_EQ(nodes.orders(5, seconds{0}), (Lines{{3, "tasks 0\n"}})) << "one task, with which both start";
  EXPECT_EQ(nodes.orders(11, seconds{5}), (Lines{{2, "tasks 3\n"}, {3, "tasks 2\n"}}));
  nodes.on_restart(3);
  EXPECT_EQ(nodes.orders(11, seconds{6}), (Lines{{3, "tasks 2\n"}}));
  nodes.on_restart(0);  // After a restart of the head no order follows.
  EXPECT_EQ(nodes.orders(1'000, seconds{10}), (Lines{{3, "tasks 10\n"}}));
}

TEST(ElasticNodes, OrderNothingIfThereAreNone) {
  const std::vector<std::vector<NodePlan>> members{{plan("head", {"executor/0"})}};
  ElasticNodes nodes{members};
  EXPECT_TRUE(nodes.orders(1'000, seconds{0}).empty());
}

}  // namespace
}  // namespace emplace::launcher
