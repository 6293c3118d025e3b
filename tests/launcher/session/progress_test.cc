// Goal: the progress line says what a run does and what holds it up. Method: what a head says, by hand.
#include "launcher/session/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace emplace::launcher {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const ShownStart kStart{"scratch", {"head", "recorder"}, {0, 2}, 0.5};

TEST(ProgressLine, SaysHowItGoes) {
  EXPECT_EQ(
      progress_line(kStart, {{"elapsed_s", 12.5},
                             {"best_step_time_s", 0.25},
                             {"updates", 3},
                             {"measurements", 8},
                             {"valid", 4},
                             {"executors", 2}}),
      "scratch  12.50 s  best 250.0 ms (-50.0 % to the best baseline)  updates 3  placements 8  fit 50 %  "
      "executors 2  recorder restarted 2x");
}

TEST(ProgressLine, SaysThatItWaitsForExecutors) {
  const json none{{"elapsed_s", 7.5}, {"executors", 0}, {"ends_by", ""}};
  EXPECT_THAT(progress_line(kStart, none), HasSubstr("  waiting for executors"));
  EXPECT_THAT(progress_line(kStart, {{"elapsed_s", 0.2}, {"executors", 0}}), Not(HasSubstr("waiting")));
  EXPECT_THAT(progress_line(kStart, {{"elapsed_s", 7.5}, {"executors", 0}, {"ends_by", "down"}}),
              Not(HasSubstr("waiting")))
      << "they leave before the head does";
}

TEST(ProgressLine, WhatIsNoNumberIsShownAsNoneYet) {
  EXPECT_THAT(progress_line(kStart, {{"best_step_time_s", nullptr}, {"elapsed_s", nullptr}}),
              HasSubstr("best none yet"));
}

TEST(ProgressLine, SaysThatItWaitsForTheDisk) {
  EXPECT_THAT(progress_line(kStart, {{"disk_waits_s", 12.3}}), HasSubstr("  waiting for the disk for 12 s"));
  EXPECT_THAT(progress_line(kStart, {{"disk_waits_s", 0.02}}), Not(HasSubstr("disk")))
      << "a commit takes a moment";
  EXPECT_THAT(progress_line(kStart, json::object()), Not(HasSubstr("disk"))) << "an older head";
}

}  // namespace
}  // namespace emplace::launcher
