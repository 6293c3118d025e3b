// Goal: whatever executors do, no range is lost, no range is finished twice, and no executor gets more than
// its credit. Method: leases that a test takes instead of a network, by hand and over random histories.
#include "actors/dispatch/lease_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/actors/dispatch/sample_messages.h"

namespace emplace::actors {
namespace {

using messages::actor_id;
using runtime::Lease;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LeaseSchedulerTest : public ::testing::Test {
 protected:
  explicit LeaseSchedulerTest(LeaseSchedulerOptions options = small_window()) : scheduler_{options} {
    scheduler_.start(1);
  }
  static LeaseSchedulerOptions small_window() {
    LeaseSchedulerOptions options;
    options.window = 4;
    return options;
  }
  void join(const std::string& name, std::uint32_t credit = 4, std::uint64_t epoch = 1) {
    scheduler_.join(sample_join(name, credit, epoch), now_);
    assign();
  }
  /// Adds an episode of ranges of two placements each.
  void add(std::uint32_t ranges) {
    std::vector<Range> added;
    for (std::uint32_t i = 0; i < ranges; ++i)
      added.push_back({.number = next_++, .count = 2, .size = {2, 8}});
    scheduler_.add(added, now_);
    assign();
  }
  void assign() { scheduler_.assign(now_, sender()); }
  LeaseScheduler::Send sender() {
    return [this](const Lease& lease, std::uint64_t executor_epoch) {
      if (refuses_.contains(lease.holder)) return false;
      EXPECT_EQ(executor_epoch, scheduler_.executors().at(lease.holder).epoch);
      sent_.push_back(lease);
      return true;
    };
  }
  /// Ranges of the leases sent to this executor, in order.
  std::vector<std::uint64_t> sent_to(const std::string& name) const {
    std::vector<std::uint64_t> ranges;
    for (const Lease& lease : sent_)
      if (lease.holder == actor_id(name)) ranges.push_back(lease.item);
    return ranges;
  }
  static messages::PlacementMeasured result_of(const Lease& lease, const std::string& name) {
    return sample_result(name, lease.epoch, 0, 2);
  }
  /// Returns whether the result counts.
  bool answer(const Lease& lease, const std::string& name) {
    const auto measured = result_of(lease, name);
    const auto open = scheduler_.answered(measured, actor_id(name), now_);
    if (open) scheduler_.succeeded(*open, measured, now_);
    assign();
    return open.has_value();
  }
  std::optional<Nanos> fail(const Lease& lease, const std::string& name) {
    const auto open = scheduler_.answered(result_of(lease, name), actor_id(name), now_);
    EXPECT_TRUE(open);
    const auto until = scheduler_.failed(*open, "it broke", now_);
    assign();
    return until;
  }
  void beat(const std::string& name, std::vector<std::uint64_t> leases,
            std::uint64_t seen = std::numeric_limits<std::uint64_t>::max()) {
    scheduler_.heartbeat({name, 1, std::move(leases), 0, seen}, actor_id(name), now_);
    assign();
  }
  void wait(Nanos time) {
    now_ += time;
    scheduler_.expire(now_);
    assign();
  }

  LeaseScheduler scheduler_;
  Nanos now_{0};
  std::uint64_t next_ = 1;
  std::vector<Lease> sent_;
  std::set<messages::ActorId> refuses_;  ///< Executors whose queue is full.
};

TEST_F(LeaseSchedulerTest, GivesRangesToExecutorsWithinTheirCredit) {
  add(5);
  EXPECT_THAT(sent_, IsEmpty());
  join("executor/0", 4);
  join("executor/1", 1);
  EXPECT_THAT(sent_to("executor/0"), ElementsAre(1, 2));
  EXPECT_THAT(sent_to("executor/1"), IsEmpty()) << "a range has two placements";
  EXPECT_TRUE(answer(sent_[0], "executor/0"));
  EXPECT_THAT(sent_to("executor/0"), ElementsAre(1, 2, 3)) << "its credit came back with the result";
  EXPECT_TRUE(scheduler_.grant({"executor/1", 1, 1, 0}, actor_id("executor/1")));
  assign();
  EXPECT_THAT(sent_to("executor/1"), ElementsAre(4));
  EXPECT_FALSE(scheduler_.grant({"executor/1", 2, 1, 0}, actor_id("executor/1"))) << "another incarnation";
  EXPECT_FALSE(scheduler_.grant({"executor/1", 1, 1, 0}, actor_id("executor/0"))) << "another executor";
}

TEST_F(LeaseSchedulerTest, StartsLeaseEpochsAtTheGivenOne) {
  scheduler_.start(1000);
  join("executor/0");
  add(1);
  EXPECT_EQ(sent_.at(0).epoch, 1000u);
}

TEST_F(LeaseSchedulerTest, CountsAResultOnceAndOnlyFromTheHolderOfItsLease) {
  join("executor/0");
  join("executor/1");
  add(1);
  const Lease lease = sent_.at(0);
  ASSERT_EQ(lease.holder, actor_id("executor/0"));
  EXPECT_FALSE(answer(lease, "executor/1"));
  EXPECT_TRUE(answer(lease, "executor/0"));
  EXPECT_FALSE(answer(lease, "executor/0")) << "a repeat";
  EXPECT_EQ(scheduler_.ranges().ranges(), 0u);
}

TEST_F(LeaseSchedulerTest, GivesAnExpiredLeaseToAnotherExecutorAndDropsTheLateResult) {
  join("executor/0");
  add(1);
  join("executor/1");
  wait(seconds{1});
  beat("executor/1", {});
  wait(seconds{1});
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].holder, actor_id("executor/1"));
  EXPECT_EQ(sent_[1].item, sent_[0].item);
  EXPECT_FALSE(answer(sent_[0], "executor/0"));
  EXPECT_TRUE(answer(sent_[1], "executor/1"));
}

TEST_F(LeaseSchedulerTest, KeepsTheCreditOfAnExpiredLeaseUntilItsExecutorNoLongerWorksOnIt) {
  join("executor/0", 2);
  add(2);
  wait(seconds{2});
  EXPECT_EQ(scheduler_.leases().counters().expired, 1u);
  beat("executor/0", {sent_.at(0).epoch});
  EXPECT_EQ(sent_.size(), 1u) << "it still works on it, too late";
  beat("executor/0", {});
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(LeaseSchedulerTest, RenewsALeaseInFlightButNotForEver) {
  join("executor/0", 2);
  add(1);
  const auto unseen = [&](int beats) {
    for (int i = 0; i < beats; ++i) {
      beat("executor/0", {}, sent_.at(0).epoch - 1);
      wait(milliseconds{500});
    }
  };
  unseen(8);
  EXPECT_EQ(scheduler_.leases().counters().expired, 0u);
  unseen(8);
  EXPECT_EQ(scheduler_.leases().counters().expired, 1u);
}

TEST_F(LeaseSchedulerTest, GivesAnOverdueRangeToAnotherExecutorTooThoughItsLeaseIsRenewed) {
  join("executor/0");
  add(1);
  const auto work_for = [&](int half_seconds) {
    for (int i = 0; i < half_seconds; ++i) {
      wait(milliseconds{500});
      beat("executor/0", {sent_.at(0).epoch});
    }
  };
  work_for(58);
  join("executor/1");
  EXPECT_THAT(sent_to("executor/1"), IsEmpty()) << "29 s of 30";
  work_for(4);
  EXPECT_THAT(sent_to("executor/1"), ElementsAre(sent_[0].item));
  EXPECT_TRUE(answer(sent_[0], "executor/0")) << "the first result counts";
  EXPECT_FALSE(answer(sent_[1], "executor/1"));
}

TEST_F(LeaseSchedulerTest, GivesARangeToAnotherExecutorIfAQueueIsFull) {
  refuses_ = {actor_id("executor/0")};
  join("executor/0");
  add(1);
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(scheduler_.executors().at(actor_id("executor/0")).credit.items(), 4) << "nothing was sent";
  EXPECT_EQ(scheduler_.leases().open(), 0u);
  join("executor/1");
  EXPECT_THAT(sent_to("executor/1"), ElementsAre(1));
  EXPECT_TRUE(answer(sent_[0], "executor/1"));
}

TEST_F(LeaseSchedulerTest, QueuesWhatALeavingExecutorReturnsAndAcceptsWhatItHasSent) {
  join("executor/0");
  add(2);
  ASSERT_EQ(sent_.size(), 2u);
  const Lease returned = sent_[0], answered = sent_[1];
  EXPECT_FALSE(scheduler_.left({"executor/0", 2, "", {}, 9}, actor_id("executor/0"), now_));
  EXPECT_TRUE(
      scheduler_.left({"executor/0", 1, "", {returned.epoch}, answered.epoch}, actor_id("executor/0"), now_));
  join("executor/1");
  EXPECT_THAT(sent_to("executor/1"), ElementsAre(returned.item));
  EXPECT_FALSE(answer(returned, "executor/0"));
  EXPECT_TRUE(answer(answered, "executor/0")) << "in flight when it left";
}

TEST_F(LeaseSchedulerTest, QueuesWhatALeavingExecutorHasNotReceived) {
  join("executor/0");
  add(2);
  EXPECT_TRUE(scheduler_.left({"executor/0", 1, "", {}, sent_.at(0).epoch}, actor_id("executor/0"), now_));
  join("executor/1");
  EXPECT_THAT(sent_to("executor/1"), ElementsAre(sent_[1].item));
}

TEST_F(LeaseSchedulerTest, EndsAllLeasesOfALostExecutor) {
  join("executor/0");
  add(2);
  EXPECT_EQ(scheduler_.lost(actor_id("executor/0"), now_), "executor/0");
  EXPECT_FALSE(scheduler_.lost(actor_id("executor/0"), now_));
  EXPECT_EQ(scheduler_.leases().open(), 0u);
  join("executor/0", 4, 2);
  EXPECT_THAT(sent_to("executor/0"), ElementsAre(1, 2, 1, 2));
  EXPECT_FALSE(answer(sent_[0], "executor/0")) << "a lease of its earlier incarnation";
  EXPECT_TRUE(answer(sent_[2], "executor/0"));
}

TEST_F(LeaseSchedulerTest, TriesExecutorsLastThatHadTheRangeBefore) {
  join("executor/0", 2);
  join("executor/1", 2);
  add(2);
  ASSERT_THAT(sent_to("executor/0"), ElementsAre(1));
  ASSERT_THAT(sent_to("executor/1"), ElementsAre(2));
  scheduler_.lost(actor_id("executor/0"), now_);
  scheduler_.join(sample_join("executor/0", 2, 2), now_);
  scheduler_.join(sample_join("executor/2", 2), now_);
  assign();
  EXPECT_THAT(sent_to("executor/2"), ElementsAre(1)) << "executor/0 was there first";
}

TEST_F(LeaseSchedulerTest, EndsTheLeasesOfAnExecutorThatIsQuarantined) {
  join("executor/0");
  join("executor/1", 0);
  add(4);
  std::optional<Nanos> until;
  for (int strike = 0; strike < 3 && !until; ++strike) {
    const auto open = std::find_if(sent_.rbegin(), sent_.rend(), [&](const Lease& lease) {
      return scheduler_.leases().find(lease.epoch) != nullptr;
    });
    ASSERT_NE(open, sent_.rend());
    until = fail(*open, "executor/0");
  }
  ASSERT_TRUE(until);
  EXPECT_GT(*until, now_);
  EXPECT_EQ(scheduler_.quarantined(now_), 1u);
  EXPECT_EQ(scheduler_.leases().open(), 0u) << "what else it held is queued, too";
  const std::size_t before = sent_.size();
  wait(milliseconds{500});
  EXPECT_EQ(sent_.size(), before) << "it gets nothing";
  EXPECT_TRUE(scheduler_.grant({"executor/1", 1, 4, 100}, actor_id("executor/1")));
  assign();
  EXPECT_EQ(sent_.size(), before + 2);
}

TEST_F(LeaseSchedulerTest, IsHopelessWhenEveryExecutorKeepsFailing) {
  join("executor/0");
  add(1);
  for (int i = 0; i < 200 && !scheduler_.hopeless(now_); ++i) {
    if (scheduler_.leases().find(sent_.back().epoch) != nullptr) fail(sent_.back(), "executor/0");
    wait(seconds{1});
    beat("executor/0", {});
  }
  EXPECT_EQ(scheduler_.hopeless(now_), "it broke");
}

TEST_F(LeaseSchedulerTest, WantsNoExecutorWithoutWork) {
  EXPECT_EQ(scheduler_.executors_wanted(now_), 0u);
  add(1);
  EXPECT_EQ(scheduler_.executors_wanted(now_), 1u) << "no speed is known";
  join("executor/0");
  EXPECT_TRUE(answer(sent_.at(0), "executor/0"));
  now_ += std::chrono::minutes{5};
  EXPECT_EQ(scheduler_.executors_wanted(now_), 0u);
}

class StragglerLeaseTest : public LeaseSchedulerTest {
 protected:
  StragglerLeaseTest() : LeaseSchedulerTest{impatient()} {}
  static LeaseSchedulerOptions impatient() {
    LeaseSchedulerOptions options = small_window();
    options.speculate_from = 3;
    options.lease.missed = 1000;
    return options;
  }
  /// Three leases take 0.1 s each; then one takes longer.
  void straggle() {
    join("executor/0");
    for (int i = 0; i < 3; ++i) {
      add(1);
      now_ += milliseconds{100};
      answer(sent_.back(), "executor/0");
    }
    add(1);
    now_ += milliseconds{150};
  }
};

TEST_F(StragglerLeaseTest, GoesToAnIdleExecutorTooAndTheFirstResultCounts) {
  straggle();
  join("executor/1");
  EXPECT_EQ(scheduler_.speculate(now_, sender()), 0u) << "less than twice as long as the others";
  now_ += milliseconds{100};
  EXPECT_EQ(scheduler_.speculate(now_, sender()), 1u);
  EXPECT_EQ(scheduler_.speculate(now_, sender()), 0u) << "two attempts, no more";
  const Lease first = sent_[sent_.size() - 2], second = sent_.back();
  EXPECT_EQ(second.item, first.item);
  EXPECT_EQ(second.attempt, 2u);
  EXPECT_TRUE(answer(second, "executor/1"));
  EXPECT_FALSE(answer(first, "executor/0"));
  EXPECT_EQ(scheduler_.leases().counters().superseded, 1u);
}

TEST_F(StragglerLeaseTest, StaysAloneWhileNoOtherExecutorIsIdle) {
  straggle();
  now_ += seconds{1};
  EXPECT_EQ(scheduler_.speculate(now_, sender()), 0u);
}

/// Executors that join, leave, vanish, fail, repeat themselves and answer late, over full queues.
class RandomHistory {
 public:
  explicit RandomHistory(std::uint64_t seed) : random_{seed}, scheduler_{options()} { scheduler_.start(1); }

  void play(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
      now_ += milliseconds{below(300)};
      move();
      if (below(2) == 0) assign();
      check();
    }
  }
  /// One healthy executor is all that remains: it must finish every range.
  void drain() {
    full_ = false;
    const std::set<std::string> present = present_;
    for (const std::string& name : present) lose(name);
    join("executor/healthy");
    for (int i = 0; i < 2000 && scheduler_.ranges().ranges() > 0; ++i) {
      now_ += milliseconds{100};
      scheduler_.expire(now_);
      assign();
      for (const Lease& lease : std::vector<Lease>{sent_})
        if (scheduler_.leases().find(lease.epoch) != nullptr) answer(lease, name_of_.at(lease.holder), true);
      check();
    }
    EXPECT_EQ(scheduler_.ranges().ranges(), 0u) << "a range was lost";
    EXPECT_EQ(finished_.size(), added_) << "every range has one result";
    EXPECT_EQ(scheduler_.ranges().placements(), 0u);
    EXPECT_EQ(scheduler_.leases().open(), 0u);
  }

 private:
  static LeaseSchedulerOptions options() {
    LeaseSchedulerOptions options;
    options.window = 6;
    options.evaluation_limit = milliseconds{400};
    options.speculate_from = 5;
    options.transit = seconds{1};
    return options;
  }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  void move() {
    const std::string name = "executor/" + std::to_string(below(5));
    const bool present = present_.contains(name);
    switch (below(9)) {
      case 0:
        add();
        break;
      case 1:
        present&& below(4) == 0 ? lose(name) : present ? grant(name) : join(name);
        break;
      case 2:
        if (present && below(4) == 0) leave(name);
        break;
      case 3:
      case 4:
        if (present) beat(name);
        break;
      case 5:
      case 6:
        if (!sent_.empty()) answer(sent_[below(sent_.size())], name, below(4) > 0);
        break;
      case 7:
        if (!sent_.empty()) {
          const Lease lease = sent_[sent_.size() - 1 - below(std::min<std::size_t>(sent_.size(), 8))];
          answer(lease, name_of_.at(lease.holder), below(4) > 0);
        }
        break;
      case 8:
        full_ = below(8) == 0;
        scheduler_.expire(now_);
        assign();
        scheduler_.speculate(now_, sender());
        break;
    }
  }
  void add() {
    std::vector<Range> ranges;
    for (std::uint64_t i = 1 + below(3); i > 0; --i) {
      const auto count = 1 + static_cast<std::uint32_t>(below(3));
      ranges.push_back({.number = ++added_, .count = count, .size = {count, 4 * count}});
    }
    scheduler_.add(ranges, now_);
  }
  void join(const std::string& name) {
    scheduler_.join(sample_join(name, 6, ++epochs_[name]), now_);
    present_.insert(name);
    name_of_[actor_id(name)] = name;
  }
  void lose(const std::string& name) {
    EXPECT_EQ(scheduler_.lost(actor_id(name), now_), name);
    present_.erase(name);
  }
  void grant(const std::string& name) {
    EXPECT_TRUE(scheduler_.grant({name, epochs_[name], 6, 1 << 20}, actor_id(name)));
  }
  std::vector<std::uint64_t> some_held(const std::string& name) {
    std::vector<std::uint64_t> some;
    for (const auto& [epoch, held] : scheduler_.executors().at(actor_id(name)).held)
      if (below(4) > 0) some.push_back(epoch);
    return some;
  }
  void leave(const std::string& name) {
    const std::uint64_t seen =
        sent_.empty() ? 0 : sent_.back().epoch - std::min(sent_.back().epoch, below(3));
    EXPECT_TRUE(scheduler_.left({name, epochs_[name], "", some_held(name), seen}, actor_id(name), now_));
    present_.erase(name);
  }
  void beat(const std::string& name) {
    const std::uint64_t seen =
        sent_.empty() ? 0 : sent_.back().epoch - std::min(sent_.back().epoch, below(3));
    scheduler_.heartbeat({name, epochs_[name], some_held(name), 1, seen}, actor_id(name), now_);
  }
  void answer(const Lease& lease, const std::string& name, bool well) {
    const Lease* const open = scheduler_.leases().find(lease.epoch);
    const bool counts = open != nullptr && open->holder == actor_id(name);
    const auto measured = sample_result(name, lease.epoch, 0, 1);
    const auto accepted = scheduler_.answered(measured, actor_id(name), now_);
    ASSERT_EQ(accepted.has_value(), counts) << "a result counts only if its sender holds the open lease";
    if (!accepted) return;
    ASSERT_EQ(accepted->item, lease.item);
    if (well) {
      scheduler_.succeeded(*accepted, measured, now_);
      ASSERT_TRUE(finished_.insert(lease.item).second) << "finished twice";
    } else {
      scheduler_.failed(*accepted, "chance", now_);
    }
  }
  void assign() { scheduler_.assign(now_, sender()); }
  LeaseScheduler::Send sender() {
    return [this](const Lease& lease, std::uint64_t executor_epoch) {
      EXPECT_TRUE(present_.contains(name_of_.at(lease.holder)));
      EXPECT_EQ(executor_epoch, epochs_.at(name_of_.at(lease.holder)));
      EXPECT_FALSE(finished_.contains(lease.item)) << "it has its result";
      EXPECT_TRUE(epochs_sent_.insert(lease.epoch).second) << "lease epochs are unique";
      for (const Lease& other : sent_)
        EXPECT_FALSE(other.item == lease.item && other.holder == lease.holder &&
                     scheduler_.leases().find(other.epoch) != nullptr)
            << "it has an open lease of this range";
      if (full_ && below(2) == 0) return false;
      sent_.push_back(lease);
      return true;
    };
  }
  void check() const {
    const runtime::LeaseTable& leases = scheduler_.leases();
    const runtime::LeaseTable::Counters& c = leases.counters();
    ASSERT_EQ(c.issued, c.committed + c.superseded + c.returned + c.expired + leases.open());
    ASSERT_EQ(scheduler_.ranges().ranges(), added_ - finished_.size());
    ASSERT_EQ(c.committed, finished_.size());
    ASSERT_EQ(scheduler_.executors().size(), present_.size());
    for (const std::string& name : present_) {
      const JoinedExecutor& executor = scheduler_.executors().at(actor_id(name));
      std::int64_t held = 0;
      for (const auto& [epoch, one] : executor.held) held += one.credit.items;
      ASSERT_EQ(executor.credit.in_flight().items, held);
      ASSERT_LE(held, 6) << "more than the window";
    }
  }

  std::mt19937_64 random_;
  LeaseScheduler scheduler_;
  Nanos now_{0};
  std::uint64_t added_ = 0;
  std::set<std::string> present_;
  std::map<std::string, std::uint64_t> epochs_;
  std::map<messages::ActorId, std::string> name_of_;
  std::vector<Lease> sent_;
  std::set<std::uint64_t> epochs_sent_, finished_;
  bool full_ = false;
};

TEST(LeaseScheduler, FinishesEveryRangeOnceInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomHistory history{seed};
    history.play(400);
    history.drain();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace emplace::actors
