// Goal: nested stop signals share one flag, and handlers that other code removed are restored. Method:
// raise().
#include "launcher/terminal/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace emplace::launcher {
namespace {

TEST(StopSignal, OuterStillReceivesAfterAnInnerHasEnded) {
  const StopSignal outer;
  { const StopSignal inner; }
  // The signal ends this test program if no handler is left.
  ASSERT_EQ(std::raise(SIGINT), 0);
  EXPECT_EQ(outer.received(), SIGINT);
}

TEST(StopSignal, InnerSeesTheSignalOfTheOuter) {
  const StopSignal outer;
  ASSERT_EQ(std::raise(SIGTERM), 0);
  const StopSignal inner;
  EXPECT_EQ(inner.received(), SIGTERM);
}

TEST(StopSignal, NewOuterStartsWithoutASignal) {
  {
    const StopSignal before;
    ASSERT_EQ(std::raise(SIGINT), 0);
  }
  EXPECT_EQ(StopSignal{}.received(), 0);
}

TEST(StopSignal, TakesOverSignalsOfOtherHandlers) {
  StopSignal stop;
  std::signal(SIGINT, SIG_DFL);
  stop.take_over(0);
  EXPECT_EQ(stop.received(), 0);
  ASSERT_EQ(std::raise(SIGINT), 0);
  EXPECT_EQ(stop.received(), SIGINT);
  stop.take_over(SIGTERM);
  EXPECT_EQ(stop.received(), SIGINT) << "the first one counts";
}

}  // namespace
}  // namespace emplace::launcher
