// Goal: the annotated locks exclude and wait as the standard ones that they wrap.
// tests/layers/guarded_test.py tests that clang refuses accesses without them. Method: two threads that
// exchange one item; in any schedule, each must see what the other wrote.
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace emplace {
namespace {

/// Holds one item at a time.
class Slot {
 public:
  void put(int item) {
    const MutexLock lock{mutex_};
    while (full_) changed_.wait(mutex_);
    item_ = item;
    full_ = true;
    changed_.notify_all();
  }
  int take() {
    const MutexLock lock{mutex_};
    while (!full_) changed_.wait(mutex_);
    full_ = false;
    changed_.notify_all();
    return item_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int item_ EMPLACE_GUARDED_BY(mutex_) = 0;
  bool full_ EMPLACE_GUARDED_BY(mutex_) = false;
};

TEST(Mutex, WaitReleasesAndReacquiresIt) {
  constexpr int kItems = 10'000;
  Slot slot;
  std::vector<int> taken;
  std::thread taker{[&] {
    for (int i = 0; i < kItems; ++i) taken.push_back(slot.take());
  }};
  for (int i = 0; i < kItems; ++i) slot.put(i);
  taker.join();
  ASSERT_EQ(taken.size(), static_cast<std::size_t>(kItems));
  for (int i = 0; i < kItems; ++i) ASSERT_EQ(taken[static_cast<std::size_t>(i)], i);
}

TEST(Mutex, ExcludesThreadsFromEachOther) {
  constexpr int kTimes = 100'000;
  Mutex mutex;
  long count = 0;
  const auto add = [&] {
    for (int i = 0; i < kTimes; ++i) {
      const MutexLock lock{mutex};
      ++count;
    }
  };
  std::thread other{add};
  add();
  other.join();
  EXPECT_EQ(count, 2L * kTimes);
}

}  // namespace
}  // namespace emplace
