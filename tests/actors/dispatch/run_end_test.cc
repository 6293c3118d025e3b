// Goal: a run ends once, for its first reason, and not before everything is learned from or time is up.
// Method: by hand; each condition alone keeps the node running.
#include "actors/dispatch/run_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emplace::actors {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RunEndOptions two_samplers() {
  return {.episodes = 3, .drain = seconds{5}, .samplers = {"sampler/0", "sampler/1"}};
}

/// A run that has ended, and of which nothing is left to learn from.
RunEnd drained_run() {
  RunEnd end{two_samplers()};
  end.start("budget", seconds{1});
  end.drained("sampler/0");
  end.drained("sampler/1");
  end.committed(2);
  end.counted({2, 0});
  return end;
}

TEST(RunEnd, IsReachedWithTheEpisodesOnDiskThatWereAskedFor) {
  RunEnd end{two_samplers()};
  EXPECT_FALSE(end.committed(2));
  EXPECT_TRUE(end.committed(3));
  EXPECT_TRUE(end.committed(1)) << "an outdated number";
  EXPECT_EQ(end.episodes_on_disk(), 3u);
  RunEnd endless{{}};
  EXPECT_FALSE(endless.committed(1'000'000));
}

TEST(RunEnd, KeepsItsFirstReason) {
  RunEnd end{two_samplers()};
  EXPECT_FALSE(end.started());
  EXPECT_EQ(end.reason(), "");
  EXPECT_TRUE(end.start("budget", seconds{1}));
  EXPECT_FALSE(end.start("episodes", seconds{2}));
  EXPECT_EQ(end.reason(), "budget");
}

TEST(RunEnd, StopsOnceWhenEverythingIsLearnedFrom) {
  RunEnd end = drained_run();
  EXPECT_TRUE(end.stops(true, seconds{2}));
  EXPECT_TRUE(end.stopped());
  EXPECT_FALSE(end.stops(true, seconds{3})) << "once";
  EXPECT_FALSE(end.abort());
}

TEST(RunEnd, DoesNotStopARunThatHasNotEnded) {
  RunEnd end{two_samplers()};
  end.drained("sampler/0");
  end.drained("sampler/1");
  end.counted({0, 0});
  EXPECT_FALSE(end.stops(true, seconds{100}));
}

TEST(RunEnd, WaitsForWorkInFlightForSamplersAndForTheLearner) {
  RunEnd busy = drained_run();
  EXPECT_FALSE(busy.stops(false, seconds{2}));

  RunEnd sampling{two_samplers()};
  sampling.start("budget", seconds{1});
  sampling.drained("sampler/0");
  sampling.drained("sampler/0");
  sampling.counted({0, 0});
  EXPECT_FALSE(sampling.stops(true, seconds{2})) << "sampler/1 may propose more";
  EXPECT_THAT(sampling.samplers_to_drain(), ElementsAre("sampler/1"));

  RunEnd learning = drained_run();
  learning.counted({2, 1});
  EXPECT_FALSE(learning.stops(true, seconds{2}));

  for (RunEnd* end : {&busy, &sampling, &learning}) {
    EXPECT_FALSE(end->stops(false, seconds{6}));
    EXPECT_TRUE(end->stops(false, seconds{7})) << "no longer than `drain`";
  }
}

TEST(RunEnd, IgnoresAnAnswerFromBeforeTheLastCommit) {
  RunEnd end = drained_run();
  end.counted({2, 4});
  end.committed(3);
  end.counted({2, 0});
  EXPECT_FALSE(end.stops(true, seconds{2}));
  end.counted({3, 0});
  EXPECT_TRUE(end.stops(true, seconds{2}));
}

TEST(RunEnd, CountsAgainAfterASamplerHasDrained) {
  RunEnd end = drained_run();
  end.drained("sampler/1");
  EXPECT_FALSE(end.stops(true, seconds{2})) << "its last update may not be on disk";
  end.counted({2, 0});
  EXPECT_TRUE(end.stops(true, seconds{2}));
}

TEST(RunEnd, NeedsCountsUntilTheRecorderAnswersAndAgainAtTheEnd) {
  RunEnd end{two_samplers()};
  EXPECT_TRUE(end.needs_counts());
  end.committed(0);
  EXPECT_FALSE(end.needs_counts());
  end.start("budget", seconds{1});
  EXPECT_TRUE(end.needs_counts());
  EXPECT_THAT(end.samplers_to_drain(), ElementsAre("sampler/0", "sampler/1"));
  EXPECT_THAT(drained_run().samplers_to_drain(), IsEmpty());
}

TEST(RunEnd, IsAbortedOnceAndOnlyWhileTheRunContinues) {
  RunEnd end{two_samplers()};
  EXPECT_TRUE(end.abort());
  EXPECT_TRUE(end.stopped());
  EXPECT_FALSE(end.abort());
  end.start("episodes", seconds{1});
  EXPECT_FALSE(end.stops(true, seconds{100})) << "it has stopped before";
  RunEnd ending{two_samplers()};
  ending.start("budget", seconds{1});
  EXPECT_FALSE(ending.abort()) << "what is in flight may still finish";
}

}  // namespace
}  // namespace emplace::actors
