// Goal: the progress line says what a run does and what holds it up. Method: what a head says, by hand.
#include "launcher/run/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace emplace::launcher {
namespace {

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

}  // namespace
}  // namespace emplace::launcher
