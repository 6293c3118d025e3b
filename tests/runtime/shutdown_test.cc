// Goal: a node ends in order, and at the latest at its deadline.
// Method: given progress and times; no thread, no socket, no clock.
#include "runtime/core/shutdown.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using Action = Shutdown::Action;
using Actions = std::vector<Action>;

constexpr Shutdown::Progress kNothing{};
constexpr Shutdown::Progress kActors{.actors_stopped = true};
constexpr Shutdown::Progress kLoops{.actors_stopped = true, .loops_ended = true};
constexpr Shutdown::Progress kAll{.actors_stopped = true, .loops_ended = true, .peers_parted = true};

TEST(Shutdown, GoesFromActorsToLoopsToPeers) {
  Shutdown shutdown{milliseconds{5'000}};
  EXPECT_TRUE(shutdown.running());
  EXPECT_FALSE(shutdown.next());
  ASSERT_TRUE(shutdown.start("signal", std::nullopt, milliseconds{100}));
  EXPECT_FALSE(shutdown.running());
  EXPECT_EQ(shutdown.next(), Nanos{milliseconds{5'100}});
  EXPECT_EQ(shutdown.advance(kNothing, milliseconds{101}), Actions{});
  EXPECT_EQ(shutdown.advance(kActors, milliseconds{102}), Actions{Action::kEndLoops});
  EXPECT_EQ(shutdown.advance(kActors, milliseconds{103}), Actions{}) << "each action once";
  EXPECT_EQ(shutdown.advance(kLoops, milliseconds{104}), Actions{Action::kSendBye});
  EXPECT_FALSE(shutdown.done());
  EXPECT_EQ(shutdown.advance(kAll, milliseconds{105}), Actions{});
  EXPECT_TRUE(shutdown.done());
  EXPECT_EQ(shutdown.outcome().value(), "signal");
}

TEST(Shutdown, WithoutPeersTakesOneTurn) {
  Shutdown shutdown{milliseconds{5'000}};
  ASSERT_TRUE(shutdown.start("every actor is done", std::nullopt, Nanos{0}));
  EXPECT_EQ(shutdown.advance(kAll, Nanos{0}), (Actions{Action::kEndLoops, Action::kSendBye}));
  EXPECT_TRUE(shutdown.done());
}

TEST(Shutdown, SkipsNoStepThatIsReadyBeforeItsTurn) {
  Shutdown shutdown{milliseconds{5'000}};
  ASSERT_TRUE(shutdown.start("signal", std::nullopt, Nanos{0}));
  const Shutdown::Progress peers_first{.loops_ended = true, .peers_parted = true};
  EXPECT_EQ(shutdown.advance(peers_first, Nanos{0}), Actions{}) << "the actors may still send";
  EXPECT_FALSE(shutdown.done());
}

TEST(Shutdown, GivesUpAtItsDeadlineInEveryPhase) {
  for (const Shutdown::Progress& stuck : {kNothing, kActors, kLoops}) {
    Shutdown shutdown{milliseconds{5'000}};
    ASSERT_TRUE(shutdown.start("signal", std::nullopt, Nanos{0}));
    const Actions before = shutdown.advance(stuck, milliseconds{4'999});
    EXPECT_EQ(std::count(before.begin(), before.end(), Action::kGiveUp), 0);
    EXPECT_FALSE(shutdown.done());
    EXPECT_EQ(shutdown.advance(stuck, milliseconds{5'000}), Actions{Action::kGiveUp});
    EXPECT_TRUE(shutdown.done());
    EXPECT_EQ(shutdown.advance(stuck, milliseconds{5'001}), Actions{}) << "once";
    EXPECT_TRUE(shutdown.outcome().ok()) << "to be late is no failure";
  }
}

TEST(Shutdown, SendsItsAcknowledgementIfTheHeadLeftFirst) {
  Shutdown shutdown{milliseconds{5'000}};
  ASSERT_TRUE(shutdown.start("the head left", std::nullopt, Nanos{0}));
  Shutdown::Progress left = kAll;
  left.head_left_first = true;
  (void)shutdown.advance(left, milliseconds{10});
  EXPECT_FALSE(shutdown.done());
  EXPECT_EQ(shutdown.next(), Nanos{milliseconds{60}});
  (void)shutdown.advance(left, milliseconds{59});
  EXPECT_FALSE(shutdown.done());
  (void)shutdown.advance(left, milliseconds{60});
  EXPECT_TRUE(shutdown.done());
}

TEST(Shutdown, KeepsTheFirstReasonAndTheFirstFailure) {
  Shutdown shutdown{milliseconds{5'000}};
  ASSERT_TRUE(shutdown.start("signal", std::nullopt, Nanos{0}));
  EXPECT_FALSE(shutdown.failed());
  EXPECT_FALSE(shutdown.start("an actor failed", Error{Errc::kRunFailed, "first"}, milliseconds{1}));
  shutdown.fail(Error{Errc::kDeadline, "second"});
  EXPECT_EQ(shutdown.reason(), "signal");
  EXPECT_EQ(shutdown.next(), Nanos{milliseconds{5'000}}) << "the deadline is that of the first call";
  (void)shutdown.advance(kAll, milliseconds{2});
  ASSERT_TRUE(shutdown.done());
  EXPECT_EQ(shutdown.outcome().error().code, Errc::kRunFailed);
  EXPECT_EQ(shutdown.outcome().error().context, "first");
}

}  // namespace
}  // namespace emplace::runtime
