#pragma once
/// std::mutex and std::condition_variable with annotations (base/guarded.h): libstdc++ has none, so clang
/// could not check its locks. Each call inlines to the standard one; there is no run-time cost.

#include <condition_variable>
#include <mutex>

#include "base/guarded.h"

namespace emplace {

/// An annotated std::mutex. Thread: any.
class EMPLACE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() EMPLACE_ACQUIRE() { mutex_.lock(); }
  void unlock() EMPLACE_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a mutex for the duration of a scope.
class EMPLACE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EMPLACE_ACQUIRE(mutex) : mutex_{mutex} { mutex_.lock(); }
  ~MutexLock() EMPLACE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// An annotated std::condition_variable. wait() takes no predicate, because clang analyses a lambda without
/// the locks of its caller. Wakeups may be spurious, so loop:
///   while (queue_.empty()) filled_.wait(mutex_);
/// Thread: any.
class Condition {
 public:
  /// Releases the mutex while waiting and holds it again on return.
  void wait(Mutex& mutex) EMPLACE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held{mutex.mutex_, std::adopt_lock};
    condition_.wait(held);
    held.release();  // The caller's MutexLock unlocks it.
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace emplace
