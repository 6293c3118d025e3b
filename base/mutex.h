#pragma once
/// std::mutex and its companions with annotations (base/guarded.h): libstdc++ has none, so clang could not
/// check locks of its types. Each call is inlined to the standard one; nothing is added at run time.

#include <condition_variable>
#include <mutex>

#include "base/guarded.h"

namespace emplace {

/// Thread: any.
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

/// Holds a mutex for the length of a scope.
class EMPLACE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EMPLACE_ACQUIRE(mutex) : mutex_{mutex} { mutex_.lock(); }
  ~MutexLock() EMPLACE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits for what others do under a mutex. It takes no predicate: clang checks a lambda without the locks of
/// its caller. Loop instead, as a wait may also end without a cause:
///   while (queue_.empty()) filled_.wait(mutex_);
/// Thread: any.
class Condition {
 public:
  /// Gives the mutex back while it waits, and holds it again when it returns.
  void wait(Mutex& mutex) EMPLACE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held{mutex.mutex_, std::adopt_lock};
    condition_.wait(held);
    held.release();  // The caller's MutexLock gives it back.
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace emplace
