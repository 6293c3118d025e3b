// Goal: a checkpoint that an actor may still need is never dropped, and a long run keeps few.
#include "record/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emplace::record {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CheckpointKeeping, KeepsTheFirstTheLastTheBestAndEveryNth) {
  const std::vector<std::uint64_t> updates{0, 50, 100, 150, 200, 250, 300, 350, 400};
  EXPECT_THAT(superfluous_checkpoints(updates, {200, 16, 120}), ElementsAre(50, 150, 250, 300));
  EXPECT_THAT(superfluous_checkpoints(updates, {200, 120, 0}), ElementsAre(50, 100, 150))
      << "250 and later are recent";
  EXPECT_THAT(superfluous_checkpoints(updates, {0, 0, 0}), IsEmpty()) << "all are wanted";
  EXPECT_THAT(superfluous_checkpoints(std::vector<std::uint64_t>{0, 50, 77}, {500, 0, 0}), IsEmpty());
  EXPECT_THAT(superfluous_checkpoints({}, {500, 0, 0}), IsEmpty());
}

// A restarted learner requests a checkpoint at least 16 versions back, whenever it crashes.
TEST(CheckpointKeeping, AlwaysKeepsASufficientlyOldCheckpoint) {
  for (const std::uint64_t step : {1u, 3u, 50u}) {
    std::vector<std::uint64_t> kept;
    for (std::uint64_t update = 0; update < 2000; update += step) {
      kept.push_back(update);
      for (const std::uint64_t gone : superfluous_checkpoints(kept, {500, 16, 7})) std::erase(kept, gone);
      const std::uint64_t wanted = update - std::min<std::uint64_t>(update, 16);
      const auto older =
          std::find_if(kept.rbegin(), kept.rend(), [&](std::uint64_t k) { return k <= wanted; });
      ASSERT_NE(older, kept.rend());
      ASSERT_GE(*older + step, wanted) << "and the nearest";
    }
    EXPECT_LT(kept.size(), 30u);
  }
}

}  // namespace
}  // namespace emplace::record
