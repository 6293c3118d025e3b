// Goal: the label of a start names the origin of its policy. Method: one start of each kind.
#include "launcher/settings/start.h"

#include <gtest/gtest.h>

#include "launcher/settings/placers.h"

namespace emplace::launcher {
namespace {

TEST(LabelOf, NamesTheOriginOfThePolicy) {
  RunConfig config;
  config.policy.method = "scheduler";
  const auto label = [&](const char* policy, const char* start) {
    config.run.policy = policy;
    return label_of(config, {.name = start, .directory = "run"});
  };
  EXPECT_EQ(label("", kScratch), "scheduler, from scratch");
  EXPECT_EQ(label(kShippedPolicy, kScratch), "scheduler, from the pretrained policy");
  EXPECT_EQ(label("runs/a@best", kScratch), "scheduler, from another policy");
  EXPECT_EQ(label(kShippedPolicy, kBestHeuristic), "scheduler, from the best heuristic");
}

}  // namespace
}  // namespace emplace::launcher
