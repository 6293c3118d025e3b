// Goal: work goes to the executor that finishes first, and no executor hoards it.  Method: leases given and
// returned by hand at given times; and a naive list of executors beside it.
#include "runtime/core/roster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;

constexpr Nanos kHorizon = milliseconds{250};
const messages::ActorId kFast = messages::actor_id("executor/0");
const messages::ActorId kSlow = messages::actor_id("executor/1");

TEST(Roster, IdleExecutorGoesBeforeABusyOne) {
  Roster roster{kHorizon};
  roster.join(kFast);
  roster.join(kSlow);
  roster.measured(kFast, 0.001);
  roster.measured(kSlow, 10);
  EXPECT_EQ(roster.next(), kFast);
  roster.give(kFast, 4, Nanos{0});
  EXPECT_EQ(roster.next(), kSlow) << "however slow";
  roster.give(kSlow, 4, Nanos{0});
  EXPECT_EQ(roster.next(), kFast) << "done sooner";
  EXPECT_FALSE(roster.idle(kFast));
}

TEST(Roster, LongestWaitBreaksTies) {
  Roster roster{kHorizon};
  roster.join(kFast);
  roster.join(kSlow);
  for (int round = 0; round < 3; ++round) {
    for (const auto turn : {kFast, kSlow}) {
      ASSERT_EQ(roster.next(), turn);
      roster.give(turn, 1, Nanos{0});
      roster.finish(turn, 1, Nanos{0});
    }
  }
}

TEST(Roster, UnmeasuredExecutorHoldsTwoLeases) {
  Roster roster{kHorizon};
  roster.join(kFast);
  roster.give(kFast, 4, Nanos{0});
  EXPECT_EQ(roster.next(), kFast);
  roster.give(kFast, 4, Nanos{0});
  EXPECT_EQ(roster.next(), std::nullopt);
  roster.finish(kFast, 4, milliseconds{4});
  roster.measured(kFast, 0.001);
  for (int lease = 0; lease < 62; ++lease) {
    ASSERT_EQ(roster.next(), kFast) << 4 + 4 * lease << " ms of work";
    roster.give(kFast, 4, milliseconds{4});
  }
  EXPECT_EQ(roster.next(), std::nullopt) << "252 ms of work";
  roster.finish(kFast, 4, milliseconds{8});
  EXPECT_EQ(roster.next(), kFast);
  roster.measured(kFast, 10);
  EXPECT_EQ(roster.next(), std::nullopt) << "it has become slow";
}

TEST(Roster, SlowExecutorHoldsTwoLeasesWhateverTheHorizon) {
  Roster roster{Nanos{0}};
  roster.join(kSlow);
  roster.measured(kSlow, 100);
  roster.give(kSlow, 4, Nanos{0});
  EXPECT_EQ(roster.next(), kSlow);
  roster.give(kSlow, 4, Nanos{0});
  EXPECT_EQ(roster.next(), std::nullopt);
}

TEST(Roster, ExecutorThatPassedIsAskedAgainAfterAChange) {
  Roster roster{kHorizon};
  roster.join(kFast);
  roster.give(kFast, 1, Nanos{0});
  for (int way = 0; way < 3; ++way) {
    roster.pass(kFast);
    EXPECT_EQ(roster.next(), std::nullopt);
    if (way == 0) roster.ask(kFast);
    if (way == 1) roster.ask_all();
    if (way == 2) roster.finish(kFast, 1, Nanos{0});
    EXPECT_EQ(roster.next(), kFast);
  }
  EXPECT_EQ(roster.next([](Roster::Id id) { return id != kFast; }), std::nullopt) << "any other executor";
  roster.leave(kFast);
  roster.finish(kFast, 1, Nanos{0});
  EXPECT_EQ(roster.next(), std::nullopt) << "it is gone";
}

TEST(Roster, IgnoresImpossibleSpeeds) {
  Roster roster{kHorizon};
  roster.join(kFast);
  for (const double nonsense : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()})
    roster.measured(kFast, nonsense);
  roster.give(kFast, 1, Nanos{0});
  roster.give(kFast, 1, Nanos{0});
  EXPECT_EQ(roster.next(), std::nullopt) << "still not measured";
}

// Compared with a naive search of a list, for any order of leases, returns and measurements.
TEST(Roster, ChoosesTheEarliestFinishOverRandomHistories) {
  struct Executor {
    std::vector<std::int64_t> held;
    double seconds = 0;
    bool measured = false;
    Nanos free_at{0};
    std::int64_t items() const {
      std::int64_t sum = 0;
      for (const std::int64_t one : held) sum += one;
      return sum;
    }
  };
  constexpr std::uint32_t kExecutors = 12;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng{seed, Purpose::kTest};
    Roster roster{kHorizon};
    std::vector<Executor> all(kExecutors);
    const auto id = [](std::size_t e) { return messages::actor_id("executor/" + std::to_string(e)); };
    for (std::size_t e = 0; e < all.size(); ++e) roster.join(id(e));
    Nanos now{0};
    const auto work = [](const Executor& e, std::int64_t items) {
      return Nanos{static_cast<std::int64_t>(e.seconds * static_cast<double>(items) * 1e9)};
    };
    for (int event = 0; event < 400; ++event) {
      now += milliseconds{rng.below(20)};
      const std::size_t one = rng.below(kExecutors);
      Executor& e = all[one];
      if (rng.below(3) > 0) {
        const auto next = roster.next();
        std::optional<std::pair<bool, Nanos>> best;
        for (const Executor& other : all) {
          if (other.held.size() >= 2 && (!other.measured || work(other, other.items()) >= kHorizon)) continue;
          const bool busy = !other.held.empty();
          const std::pair done{busy, (busy ? other.free_at : Nanos{0}) + work(other, 1)};
          best = best ? std::min(*best, done) : done;
        }
        ASSERT_EQ(next.has_value(), best.has_value()) << "seed " << seed;
        if (!next) continue;
        std::size_t chosen = 0;
        while (id(chosen) != *next) ++chosen;
        Executor& given = all[chosen];
        const bool busy = !given.held.empty();
        ASSERT_EQ((std::pair{busy, (busy ? given.free_at : Nanos{0}) + work(given, 1)}), *best)
            << "seed " << seed;
        const std::int64_t items = 1 + rng.below(4);
        given.held.push_back(items);
        given.free_at = std::max(now, given.free_at) + work(given, items);
        roster.give(*next, items, now);
      } else if (!e.held.empty()) {
        const std::int64_t items = e.held.front();
        e.held.erase(e.held.begin());
        e.free_at = now + work(e, e.items());
        roster.finish(id(one), items, now);
        if (e.measured) continue;
        e.measured = true;
        e.seconds = 0.001 * (1 << rng.below(8));
        roster.measured(id(one), e.seconds);
      }
    }
  }
}

}  // namespace
}  // namespace emplace::runtime
