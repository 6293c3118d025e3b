// Goal: leases, credit, sessions and restarts keep their contracts. Method: tables of events with given
// times; no thread, no socket, no clock.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "base/rng.h"
#include "runtime/core/credit.h"
#include "runtime/core/lease.h"
#include "runtime/core/recent.h"
#include "runtime/core/restart.h"
#include "runtime/core/session.h"

namespace emplace::runtime {
namespace {

using messages::actor_id;
using std::chrono::milliseconds;

const messages::ActorId kFirst = actor_id("executor/0");
const messages::ActorId kSecond = actor_id("executor/1");
constexpr Nanos kEvaluation = std::chrono::seconds{30};

TEST(LeaseTable, LeaseExpiresAfterThreeHeartbeatsWithoutRenewal) {
  LeaseTable table{{.heartbeat = milliseconds{500}}};
  const auto lease = table.grant(7, kFirst, Nanos{0}, kEvaluation);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->attempt, 1u);
  const std::uint64_t held[] = {lease->epoch};
  table.renew(kFirst, held, milliseconds{1000});
  EXPECT_TRUE(table.expire(milliseconds{2500}).empty());
  const auto expired = table.expire(milliseconds{2501});
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].item, 7u);
  EXPECT_FALSE(table.commit(lease->epoch));
  EXPECT_EQ(table.grant(7, kSecond, milliseconds{2501}, kEvaluation)->attempt, 2u);
}

TEST(LeaseTable, OnlyTheHolderRenews) {
  LeaseTable table;
  const auto lease = table.grant(1, kFirst, Nanos{0}, kEvaluation);
  const std::uint64_t held[] = {lease->epoch};
  table.renew(kSecond, held, milliseconds{1400});
  EXPECT_EQ(table.expire(milliseconds{1501}).size(), 1u);
}

TEST(LeaseTable, TwoAttemptsMayBeOpenAndTheFirstCommitWins) {
  LeaseTable table;
  const auto first = table.grant(1, kFirst, Nanos{0}, kEvaluation);
  EXPECT_FALSE(table.grant(1, kFirst, Nanos{0}, kEvaluation)) << "one holder, one attempt";
  const auto second = table.grant(1, kSecond, Nanos{0}, kEvaluation);
  ASSERT_TRUE(second);
  EXPECT_FALSE(table.grant(1, actor_id("executor/2"), Nanos{0}, kEvaluation)) << "a third attempt";
  EXPECT_TRUE(table.commit(second->epoch));
  EXPECT_FALSE(table.commit(first->epoch)) << "another was first";
  EXPECT_FALSE(table.commit(second->epoch)) << "a commit counts once";
  EXPECT_EQ(table.counters().superseded, 1u);
  EXPECT_EQ(table.open(), 0u);
}

TEST(LeaseTable, OverdueLeaseIsNamedOnlyWhileItIsTheOnlyAttempt) {
  LeaseTable table;
  const auto lease = table.grant(1, kFirst, Nanos{0}, milliseconds{100});
  EXPECT_TRUE(table.overdue(milliseconds{100}).empty());
  ASSERT_EQ(table.overdue(milliseconds{101}).size(), 1u);
  EXPECT_FALSE(table.may_grant(1, kFirst, milliseconds{101})) << "it has it";
  EXPECT_TRUE(table.may_grant(1, kSecond, milliseconds{101}));
  const auto second = table.grant(1, kSecond, milliseconds{102}, milliseconds{100});
  EXPECT_TRUE(table.overdue(milliseconds{102}).empty());
  EXPECT_EQ(table.end(second->epoch).size(), 1u);
  EXPECT_EQ(table.overdue(milliseconds{103}).size(), 1u) << "alone again";
  EXPECT_NE(table.find(lease->epoch), nullptr);
}

TEST(LeaseTable, ThirdAttemptIsAllowedWhenTwoAreOverdue) {
  LeaseTable table;
  const auto third = actor_id("executor/2");
  (void)table.grant(1, kFirst, Nanos{0}, milliseconds{100});
  (void)table.grant(1, kSecond, milliseconds{101}, milliseconds{100});
  EXPECT_FALSE(table.may_grant(1, third, milliseconds{201}));
  EXPECT_TRUE(table.overdue(milliseconds{201}).empty());
  EXPECT_EQ(table.overdue(milliseconds{202}).size(), 2u);
  const auto lease = table.grant(1, third, milliseconds{202}, milliseconds{100});
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->attempt, 3u);
  EXPECT_TRUE(table.overdue(milliseconds{202}).empty());
  EXPECT_TRUE(table.commit(lease->epoch));
  EXPECT_EQ(table.counters().superseded, 2u);
  EXPECT_EQ(table.open(), 0u);
}

TEST(LeaseTable, OldLeasesWithOneAttemptAreNamedOldestFirst) {
  LeaseTable table;
  for (std::uint64_t item = 0; item < 4; ++item)
    (void)table.grant(item, kFirst, milliseconds{10 * item}, kEvaluation);
  (void)table.grant(1, kSecond, milliseconds{40}, kEvaluation);
  const auto old = table.older(milliseconds{20}, milliseconds{41});  // Granted before 21 ms.
  ASSERT_EQ(old.size(), 2u);
  EXPECT_EQ(old[0].item, 0u);
  EXPECT_EQ(old[1].item, 2u);
}

TEST(LeaseTable, DroppingAHolderFreesAllItHad) {
  LeaseTable table;
  (void)table.grant(1, kFirst, Nanos{0}, kEvaluation);
  (void)table.grant(2, kSecond, Nanos{0}, kEvaluation);
  (void)table.grant(3, kFirst, Nanos{0}, kEvaluation);
  const auto dropped = table.drop(kFirst);
  ASSERT_EQ(dropped.size(), 2u);
  EXPECT_EQ(dropped[0].item, 1u);
  EXPECT_EQ(dropped[1].item, 3u);
  EXPECT_EQ(table.open(), 1u);
}

TEST(LeaseTable, ReturnedLeasesAreNotExpired) {
  LeaseTable table;
  const auto first = table.grant(1, kFirst, Nanos{0}, kEvaluation);
  (void)table.grant(2, kFirst, Nanos{0}, kEvaluation);
  (void)table.grant(3, kSecond, Nanos{0}, kEvaluation);
  ASSERT_EQ(table.end(first->epoch).size(), 1u);
  EXPECT_TRUE(table.end(first->epoch).empty());
  EXPECT_EQ(table.counters().returned, 1u);
  EXPECT_EQ(table.counters().expired, 0u);
  EXPECT_EQ(table.open(), 2u);
  EXPECT_FALSE(table.commit(first->epoch)) << "nor does it count";
}

// In any order of events nothing is lost and nothing counts twice.
TEST(LeaseTable, ConservesEveryLeaseOverRandomHistories) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng{seed, Purpose::kTest};
    LeaseTable table;
    std::vector<Lease> granted;
    std::set<std::uint64_t> counted;
    Nanos now{0};
    for (int event = 0; event < 300; ++event) {
      now += milliseconds{rng.below(400)};
      const auto holder = rng.below(2) == 0 ? kFirst : kSecond;
      switch (rng.below(6)) {
        case 0:
        case 1: {
          const std::uint64_t item = rng.below(20);
          if (counted.contains(item)) break;  // The caller is done with it.
          if (const auto lease = table.grant(item, holder, now, milliseconds{500})) granted.push_back(*lease);
          break;
        }
        case 2:
          if (!granted.empty()) {
            const Lease& lease = granted[rng.below(static_cast<std::uint32_t>(granted.size()))];
            if (table.commit(lease.epoch)) {
              EXPECT_TRUE(counted.insert(lease.item).second) << "item counted twice, seed " << seed;
            }
          }
          break;
        case 3:
          (void)table.expire(now);
          break;
        case 4:
          if (rng.below(10) == 0) (void)table.drop(holder);
          break;
        case 5:
          if (!granted.empty())
            (void)table.end(granted[rng.below(static_cast<std::uint32_t>(granted.size()))].epoch);
          break;
      }
      const auto& c = table.counters();
      ASSERT_EQ(c.issued, c.committed + c.superseded + c.returned + c.expired + table.open())
          << "seed " << seed;
      ASSERT_EQ(c.committed, counted.size()) << "seed " << seed;
    }
  }
}

TEST(RecentDurations, ReturnsTheValueAtAShare) {
  RecentDurations recent;
  for (int i = 100; i > 0; --i) recent.add(milliseconds{i});
  EXPECT_EQ(recent.known(), 100u);
  EXPECT_EQ(recent.at(0.99), milliseconds{99});
  EXPECT_EQ(recent.at(0.5), milliseconds{50});
  EXPECT_EQ(recent.at(1), milliseconds{100});
  EXPECT_EQ(recent.at(0), milliseconds{1});
  for (int i = 0; i < 512; ++i) recent.add(milliseconds{7});
  EXPECT_EQ(recent.known(), 512u) << "older ones are forgotten";
  EXPECT_EQ(recent.at(1), milliseconds{7});
}

TEST(CreditAccount, IsNeverNegativeAndNeverAboveItsWindow) {
  struct Step {
    enum { kGrant, kTake, kFinish } what;
    Credit amount;
    bool allowed;
    Credit left;
  };
  const Step steps[] = {
      {Step::kTake, {1, 10}, false, {0, 0}},        // Nothing granted yet.
      {Step::kGrant, {4, 100}, true, {4, 100}},     //
      {Step::kGrant, {9, 900}, true, {4, 100}},     // Beyond the window: ignored.
      {Step::kGrant, {-5, -5}, true, {4, 100}},     // Hostile: ignored.
      {Step::kTake, {1, 60}, true, {3, 40}},        //
      {Step::kTake, {1, 60}, false, {3, 40}},       // Too many bytes.
      {Step::kGrant, {4, 100}, true, {3, 40}},      // In flight counts towards the window.
      {Step::kFinish, {1, 60}, true, {4, 100}},     //
      {Step::kTake, {1, 5'000}, true, {3, 0}},      // Larger than the window, but alone.
      {Step::kTake, {1, 1}, false, {3, 0}},         //
      {Step::kFinish, {1, 5'000}, true, {4, 100}},  //
  };
  CreditAccount account{{4, 100}};
  for (const Step& step : steps) {
    if (step.what == Step::kGrant) account.grant(step.amount);
    if (step.what == Step::kTake) {
      EXPECT_EQ(account.take(step.amount), step.allowed);
    }
    if (step.what == Step::kFinish) account.finish(step.amount);
    EXPECT_EQ(account.left(), step.left) << "step " << (&step - steps);
  }
}

// Grants, repeated grants, late results and hostile numbers in any order.
TEST(CreditAccount, StaysWithinItsWindowOverRandomHistories) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  constexpr Credit kWindow{8, 1'000};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng{seed, Purpose::kTest};
    CreditAccount account{kWindow};
    std::vector<Credit> held;
    for (int event = 0; event < 300; ++event) {
      const Credit wanted{1 + rng.below(3), 1 + rng.below(400)};
      switch (rng.below(5)) {
        case 0:
          account.grant({rng.below(10), rng.below(1'200)});
          break;
        case 1:
          account.grant(rng.below(2) == 0 ? Credit{kHuge, kHuge} : Credit{-kHuge, -kHuge});
          break;
        case 2:
        case 3:
          if (account.take(wanted)) held.push_back(wanted);
          break;
        case 4:
          if (held.empty()) break;
          account.finish(held.back(), rng.below(4) != 0);
          held.pop_back();
          break;
      }
      std::int64_t items = 0;
      for (const Credit& one : held) items += one.items;
      const Credit left = account.left();
      ASSERT_TRUE(left.items >= 0 && left.bytes >= 0 && left.bytes <= kWindow.bytes) << "seed " << seed;
      ASSERT_LE(left.items + items, kWindow.items) << "seed " << seed;
    }
  }
}

TEST(Session, SeesGapsAndRepeatsPerPlane) {
  Session session{milliseconds{1500}};
  EXPECT_EQ(session.on_hello(11, Nanos{0}), Session::Hello::kNew);
  EXPECT_EQ(session.on_hello(11, Nanos{0}), Session::Hello::kSame);
  EXPECT_EQ(session.on_message(0, 1, Nanos{0}), Session::Order::kNext);
  EXPECT_EQ(session.on_message(1, 1, Nanos{0}), Session::Order::kNext);
  EXPECT_EQ(session.on_message(0, 1, Nanos{0}), Session::Order::kRepeat);
  EXPECT_EQ(session.on_message(0, 5, Nanos{0}), Session::Order::kGap);
  EXPECT_EQ(session.missing(), 3u);
  EXPECT_EQ(session.on_message(1, 2, Nanos{0}), Session::Order::kNext);
}

TEST(Session, ReplacedEpochIsNeverAccepted) {
  Session session{milliseconds{1500}};
  (void)session.on_hello(1, Nanos{0});
  EXPECT_EQ(session.on_hello(2, Nanos{0}), Session::Hello::kNew);
  EXPECT_EQ(session.on_hello(1, Nanos{0}), Session::Hello::kFenced);
  session.end();
  EXPECT_FALSE(session.open());
  EXPECT_EQ(session.on_hello(2, Nanos{0}), Session::Hello::kFenced);
  EXPECT_EQ(session.on_hello(3, Nanos{0}), Session::Hello::kNew);
}

TEST(Session, SilenceBeyondThePatienceIsALoss) {
  Session session{milliseconds{1500}};
  EXPECT_FALSE(session.lost(std::chrono::hours{1})) << "nothing to lose yet";
  (void)session.on_hello(1, milliseconds{100});
  EXPECT_FALSE(session.lost(milliseconds{1600}));
  EXPECT_TRUE(session.lost(milliseconds{1601}));
  session.on_received(milliseconds{1601});
  EXPECT_FALSE(session.lost(milliseconds{3101}));
}

TEST(RestartLimiter, AllowsALimitedNumberInAnyPeriod) {
  RestartLimiter limiter{2, std::chrono::seconds{60}};
  EXPECT_TRUE(limiter.allow(std::chrono::seconds{0}));
  EXPECT_TRUE(limiter.allow(std::chrono::seconds{30}));
  EXPECT_FALSE(limiter.allow(std::chrono::seconds{59}));
  EXPECT_TRUE(limiter.allow(std::chrono::seconds{60}));
  EXPECT_FALSE(limiter.allow(std::chrono::seconds{61}));
}

}  // namespace
}  // namespace emplace::runtime
