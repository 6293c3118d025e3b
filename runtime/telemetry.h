#pragma once
/// Counters of an actor's loop, readable from other threads while it works.

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace emplace::runtime {

/// Snapshot of one actor.
struct ActorFacts {
  std::string name;
  std::uint64_t handled = 0;   ///< Messages handled.
  std::uint64_t waiting = 0;   ///< Messages in its queue.
  std::uint32_t restarts = 0;  ///< Restarts after an exception.
  std::string last_error;      ///< Text of the last exception; empty if there was none.
};

/// Thread: any.
class ActorTelemetry {
 public:
  explicit ActorTelemetry(std::string name) : name_{std::move(name)} {}

  void handled() { handled_.fetch_add(1, std::memory_order_relaxed); }
  /// Counts messages that enter and leave the queue. Latest-only messages are not counted: one replaces
  /// another.
  void queued() { queued_.fetch_add(1, std::memory_order_relaxed); }
  void taken() { taken_.fetch_add(1, std::memory_order_relaxed); }
  void failed(std::string error) {
    const MutexLock lock{mutex_};
    ++restarts_;
    last_error_ = std::move(error);
  }
  ActorFacts facts() const {
    const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    const std::uint64_t queued = queued_.load(std::memory_order_relaxed);
    const MutexLock lock{mutex_};
    return {name_, handled_.load(std::memory_order_relaxed), queued > taken ? queued - taken : 0, restarts_,
            last_error_};
  }

 private:
  const std::string name_;
  std::atomic<std::uint64_t> handled_{0}, queued_{0}, taken_{0};
  mutable Mutex mutex_;
  std::uint32_t restarts_ EMPLACE_GUARDED_BY(mutex_) = 0;
  std::string last_error_ EMPLACE_GUARDED_BY(mutex_);
};

}  // namespace emplace::runtime
