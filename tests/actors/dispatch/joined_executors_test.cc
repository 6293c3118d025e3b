// Goal: credit is neither lost nor made up, and no executor acts for another.
// Method: by hand, and random histories against a model of the held leases.
#include "actors/dispatch/joined_executors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "actors/dispatch/refused_executors.h"
#include "tests/actors/dispatch/sample_messages.h"

namespace emplace::actors {
namespace {

using messages::actor_id;
using std::chrono::seconds;

constexpr runtime::Credit kWindow{8, 1000};

TEST(JoinedExecutors, FindsAnExecutorOnlyUnderItsOwnNameAndIncarnation) {
  JoinedExecutors executors{kWindow};
  executors.join(sample_join("executor/0", 4, 7), Nanos{0});
  executors.join(sample_join("executor/1", 4, 7), Nanos{0});
  const auto first = actor_id("executor/0"), second = actor_id("executor/1");
  EXPECT_NE(executors.find("executor/0", first), nullptr);
  EXPECT_EQ(executors.find("executor/0", second), nullptr) << "no executor acts for another";
  EXPECT_EQ(executors.find("executor/2", actor_id("executor/2")), nullptr);
  EXPECT_NE(executors.find("executor/0", 7, first), nullptr);
  EXPECT_EQ(executors.find("executor/0", 6, first), nullptr);
}

TEST(JoinedExecutors, GivesNoMoreCreditThanWasGrantedOrTheWindowAllows) {
  JoinedExecutors executors{kWindow};
  const auto id = actor_id("executor/0");
  executors.join(sample_join("executor/0", 3), Nanos{0});
  EXPECT_FALSE(executors.reserve(id, {4, 16}));
  EXPECT_TRUE(executors.reserve(id, {3, 12}));
  executors.hold(id, 1, {{3, 12}, Nanos{0}});
  EXPECT_FALSE(executors.reserve(id, {1, 4}));
  executors.grant(id, {1'000'000, 1'000'000});
  EXPECT_EQ(executors.at(id).credit.items(), 5) << "a hostile grant is cut to the window";
  EXPECT_TRUE(executors.reserve(id, {5, 20}));
  executors.hold(id, 2, {{5, 20}, Nanos{0}});
  EXPECT_FALSE(executors.reserve(id, {1, 4}));
}

TEST(JoinedExecutors, TakesTheCreditOfALeaseBackOnce) {
  JoinedExecutors executors{kWindow};
  const auto id = actor_id("executor/0");
  executors.join(sample_join("executor/0", 4), Nanos{0});
  ASSERT_TRUE(executors.reserve(id, {4, 16}));
  executors.hold(id, 1, {{4, 16}, Nanos{0}});
  EXPECT_FALSE(executors.give_back(id, 2)) << "it does not hold this lease";
  EXPECT_EQ(executors.give_back(id, 1), (runtime::Credit{4, 16}));
  EXPECT_FALSE(executors.give_back(id, 1));
  EXPECT_FALSE(executors.give_back(actor_id("executor/1"), 1)) << "not present";
  EXPECT_EQ(executors.at(id).credit.items(), 4);
  EXPECT_EQ(executors.at(id).credit.in_flight(), (runtime::Credit{0, 0}));
}

TEST(JoinedExecutors, ReturnsWhatALeavingExecutorHeld) {
  JoinedExecutors executors{kWindow};
  const auto id = actor_id("executor/0");
  executors.join(sample_join("executor/0", 4), Nanos{0});
  ASSERT_TRUE(executors.reserve(id, {2, 8}));
  executors.hold(id, 5, {{2, 8}, Nanos{0}});
  const auto left = executors.leave(id);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->name, "executor/0");
  EXPECT_TRUE(left->held.contains(5));
  EXPECT_FALSE(executors.leave(id));
  EXPECT_FALSE(executors.contains(id));
  EXPECT_TRUE(executors.uses(Nanos{1}).empty());
  executors.join(sample_join("executor/0", 4, 2), Nanos{0});
  EXPECT_FALSE(executors.give_back(id, 5)) << "a new incarnation holds nothing";
}

TEST(JoinedExecutors, MeasuresTimesByItsOwnClockFromTheLaterOfGrantAndLastResult) {
  JoinedExecutors executors{kWindow};
  const auto id = actor_id("executor/0");
  executors.join(sample_join("executor/0", 4), seconds{1});
  EXPECT_EQ(executors.measured(id, 2, seconds{2}, seconds{5}), seconds{3});
  EXPECT_EQ(executors.measured(id, 2, seconds{3}, seconds{6}), seconds{1}) << "it waited behind the first";
  EXPECT_EQ(executors.measured(id, 2, seconds{8}, seconds{9}), seconds{1});
  EXPECT_FALSE(executors.measured(actor_id("executor/1"), 2, seconds{8}, seconds{9}));
  EXPECT_EQ(executors.at(id).measured, 6u);
}

TEST(JoinedExecutors, ReportsUseInTheOrderOfNamesAndOnlyForTheTimeSinceTheJoin) {
  JoinedExecutors executors{kWindow};
  executors.join(sample_join("executor/2", 4), Nanos{0});
  executors.join(sample_join("executor/1", 3), seconds{10});
  const auto first = actor_id("executor/1");
  executors.beat(first, 8, seconds{12});  // It was busy for 6 s or more before it joined again.
  EXPECT_DOUBLE_EQ(executors.uses(seconds{12})[0].utilisation, 1);
  executors.beat(first, 9, seconds{16});
  executors.beat(actor_id("executor/2"), 1e9, seconds{16});
  const auto uses = executors.uses(seconds{16});
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].executor, "executor/1");
  EXPECT_DOUBLE_EQ(uses[0].utilisation, 0.5) << "3 s of 6 s";
  EXPECT_EQ(uses[0].credit, 3u);
  EXPECT_EQ(uses[1].executor, "executor/2");
  EXPECT_LE(uses[1].utilisation, 1) << "whatever it claims";
}

TEST(JoinedExecutors, CountsTheOldestLeaseOfEachExecutorAsRunning) {
  JoinedExecutors executors{kWindow};
  for (const char* name : {"executor/0", "executor/1", "executor/2"})
    executors.join(sample_join(name, 8), Nanos{0});
  const auto hold = [&](const char* name, std::uint64_t lease, std::int64_t items) {
    ASSERT_TRUE(executors.reserve(actor_id(name), {items, items}));
    executors.hold(actor_id(name), lease, {{items, items}, Nanos{0}});
  };
  hold("executor/0", 1, 3);
  hold("executor/1", 2, 2);
  hold("executor/0", 3, 4);
  EXPECT_EQ(executors.placements_running(), 5u);
  executors.give_back(actor_id("executor/0"), 1);
  EXPECT_EQ(executors.placements_running(), 6u);
}

TEST(JoinedExecutors, KeepsCreditInFlightEqualToTheHeldLeasesInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    JoinedExecutors executors{kWindow};
    std::map<std::string, std::map<std::uint64_t, std::int64_t>> model;  // Items of held leases.
    std::uint64_t lease = 0;
    for (int step = 0; step < 300; ++step) {
      const std::string name = "executor/" + std::to_string(below(4));
      const auto id = actor_id(name);
      switch (below(5)) {
        case 0:
          if (model.contains(name)) {
            EXPECT_EQ(executors.leave(id)->held.size(), model.at(name).size());
            model.erase(name);
          } else {
            executors.join(sample_join(name, static_cast<std::uint32_t>(below(20))), Nanos{step});
            model[name] = {};
          }
          break;
        case 1:
          if (model.contains(name)) executors.grant(id, {static_cast<std::int64_t>(below(20)), 50});
          break;
        case 2:
        case 3: {
          const auto items = 1 + static_cast<std::int64_t>(below(4));
          if (!model.contains(name) || !executors.reserve(id, {items, 4 * items})) break;
          executors.hold(id, ++lease, {{items, 4 * items}, Nanos{0}});
          model[name][lease] = items;
          break;
        }
        case 4: {
          const std::uint64_t chosen = 1 + below(lease + 1);
          const bool held = model.contains(name) && model[name].erase(chosen) > 0;
          EXPECT_EQ(executors.give_back(id, chosen).has_value(), held);
          break;
        }
      }
      ASSERT_EQ(executors.size(), model.size());
      for (const auto& [present, held] : model) {
        std::int64_t items = 0;
        for (const auto& [epoch, count] : held) items += count;
        const runtime::CreditAccount& credit = executors.at(actor_id(present)).credit;
        ASSERT_EQ(credit.in_flight().items, items) << "seed " << seed;
        ASSERT_LE(items + credit.items(), kWindow.items) << "seed " << seed;
        ASSERT_GE(credit.items(), 0);
      }
    }
  }
}

TEST(RefusedExecutors, ReportsEachNameOnceUntilItIsErased) {
  RefusedExecutors refused;
  EXPECT_TRUE(refused.add("executor/0"));
  EXPECT_FALSE(refused.add("executor/0"));
  EXPECT_TRUE(refused.contains("executor/0"));
  refused.erase("executor/0");
  EXPECT_FALSE(refused.contains("executor/0"));
  EXPECT_TRUE(refused.add("executor/0"));
}

TEST(RefusedExecutors, KeepsABoundedNumberOfNames) {
  RefusedExecutors refused;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < 3 * RefusedExecutors::kMost; ++i)
    EXPECT_TRUE(refused.add("stranger/" + std::to_string(i)));
  for (std::size_t i = 0; i < 3 * RefusedExecutors::kMost; ++i)
    kept += refused.contains("stranger/" + std::to_string(i));
  EXPECT_LE(kept, RefusedExecutors::kMost);
  EXPECT_TRUE(refused.contains("stranger/" + std::to_string(3 * RefusedExecutors::kMost - 1)));
}

}  // namespace
}  // namespace emplace::actors
