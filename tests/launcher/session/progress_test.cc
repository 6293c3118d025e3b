// Goal: the progress line shows what a run does and what it waits for; the launcher gets the same numbers.
// Method: values of progress written by the test.
#include "launcher/session/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "launcher/cluster/supervision/node_lines.h"
#include "launcher/terminal/progress_text.h"

namespace emplace::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const ShownStart kStart{"scratch", {"head", "recorder"}, {0, 2}, 30, "expert", 0.5, 0.2};

messages::RunProgress progress(double elapsed_s, std::size_t executors = 0) {
  messages::RunProgress p;
  p.dispatch.elapsed_s = elapsed_s;
  p.dispatch.executors.resize(executors);
  return p;
}

TEST(ProgressLine, ShowsTimeBestAndCounts) {
  messages::RunProgress now = progress(12.5, 2);
  now.dispatch.best_step_time_s = 0.25;
  now.dispatch.measurements = 8;
  now.dispatch.valid = 4;
  now.record.updates = 3;
  EXPECT_EQ(
      progress_line(kStart, now),
      "scratch  12.5 s of 30.0 s  best 250.0 ms (-50.0 % vs expert, 25.0 % above the bound)  updates 3  "
      "placements 8  fit 50 %  "
      "executors 2  recorder restarted 2x");
}

TEST(ProgressLine, ShowsThatItWaitsForExecutors) {
  EXPECT_THAT(progress_line(kStart, progress(7.5)), HasSubstr("  waiting for executors"));
  EXPECT_THAT(progress_line(kStart, progress(0.2)), Not(HasSubstr("waiting")));
  messages::RunProgress down = progress(7.5);
  down.dispatch.ending = "down";
  EXPECT_THAT(progress_line(kStart, down), Not(HasSubstr("waiting"))) << "they leave before the head does";
}

TEST(ProgressLine, ShowsThatThereIsNoBestYet) {
  EXPECT_THAT(progress_line(kStart, progress(0)), HasSubstr("best none yet"));
  messages::RunProgress odd = progress(0);
  odd.dispatch.best_step_time_s = odd.record.staleness = odd.record.disk_waits_s = kNan;
  const std::string line = progress_line(kStart, odd);
  EXPECT_THAT(line, HasSubstr("best none yet"));
  EXPECT_THAT(line, Not(HasSubstr("nan"))) << "NaN is not shown";
}

TEST(ProgressLine, ResumedRunShowsItsRecordedBestUntilItHasABetterOne) {
  ShownStart resumed = kStart;
  resumed.recorded_best_s = 0.3;
  messages::RunProgress now = progress(1, 2);
  EXPECT_THAT(progress_line(resumed, now), HasSubstr("best 300.0 ms"));
  now.dispatch.best_step_time_s = 0.4;
  EXPECT_THAT(progress_line(resumed, now), HasSubstr("best 300.0 ms"));
  now.dispatch.best_step_time_s = 0.2;
  EXPECT_THAT(progress_line(resumed, now), HasSubstr("best 200.0 ms"));
}

TEST(ProgressLine, ShowsLeasesAndWhetherTheyAddUp) {
  messages::RunProgress now = progress(1);
  EXPECT_THAT(progress_line(kStart, now), Not(HasSubstr("leases")));
  now.dispatch.leases = {.issued = 10, .counted = 6, .open = 3, .expired = 1, .refused = 0};
  EXPECT_THAT(progress_line(kStart, now), HasSubstr("  leases 10, 3 open, 1 expired"));
  EXPECT_THAT(progress_line(kStart, now), Not(HasSubstr("accounted")));
  now.dispatch.leases.counted = 5;
  EXPECT_THAT(progress_line(kStart, now), HasSubstr("(9 accounted for)"));
}

TEST(ProgressLine, ShowsThatItWaitsForTheDisk) {
  messages::RunProgress now = progress(0);
  EXPECT_THAT(progress_line(kStart, now), Not(HasSubstr("disk")));
  now.record.disk_waits_s = 12.3;
  EXPECT_THAT(progress_line(kStart, now), HasSubstr("  waiting for the disk for 12 s"));
  now.record.disk_waits_s = 0.02;
  EXPECT_THAT(progress_line(kStart, now), Not(HasSubstr("disk"))) << "a commit takes a moment";
}

TEST(ProgressText, HasTimeBestAndReferences) {
  EXPECT_EQ(
      progress_text({.activity = "anneal",
                     .elapsed_s = 12.3,
                     .budget_s = 30,
                     .best_s = 0.19,
                     .heuristic = "scotch",
                     .heuristic_s = 0.2,
                     .bound_s = 0.1,
                     .details = "8124 evaluations"}),
      "anneal  12.3 s of 30.0 s  best 190.0 ms (-5.0 % vs scotch, 90.0 % above the bound)  8124 evaluations");
  EXPECT_EQ(progress_text({.activity = "fit", .elapsed_s = 2, .has_best = false}), "fit  2.0 s");
  EXPECT_EQ(progress_text({.activity = "update 1 of 9", .best_s = kNan}),
            "update 1 of 9  0.0 s  best none yet");
}

TEST(NodeLines, ProgressRoundTrips) {
  messages::RunProgress now = progress(1.25, 1);
  now.dispatch.executors[0].executor = "executor/0";
  now.dispatch.ending = "a line\nwith an end";
  now.record.updates = 3;
  const std::string line = line_of(now);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto read = parse_progress(line);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(messages::encode_body(*read), messages::encode_body(now));
  EXPECT_FALSE(parse_progress("progress ?").has_value());
  EXPECT_FALSE(parse_progress("progress AAAA").has_value());
  EXPECT_FALSE(parse_progress("a line of something else").has_value());
}

}  // namespace
}  // namespace emplace::launcher
