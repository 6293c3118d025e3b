// Goal: one launcher at a time prepares a run. Method: real folders.
#include "record/store/launch_lock.h"

#include <gtest/gtest.h>

#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

class LaunchLockTest : public RecordedRun {};

TEST_F(LaunchLockTest, AllowsOneLauncherAtATime) {
  std::filesystem::create_directories(directory_);
  {
    const auto first = LaunchLock::take(directory_);
    ASSERT_TRUE(first.ok());
    const auto second = LaunchLock::take(directory_);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Errc::kInvalid);
    EXPECT_TRUE(RunWriter::create(directory_, {}).ok()) << "its processes may write meanwhile";
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "lock"));
  EXPECT_TRUE(LaunchLock::take(directory_).ok());
}

}  // namespace
}  // namespace emplace::record
