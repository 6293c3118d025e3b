#pragma once
/// What an actor's loop counts while it works, for whoever watches from another thread.

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace emplace::runtime {

/// One actor, as it was a moment ago.
struct ActorFacts {
  std::string name;
  std::uint64_t handled = 0;   ///< Messages.
  std::uint64_t waiting = 0;   ///< In its queue.
  std::uint32_t restarts = 0;  ///< After it threw.
  std::string last_error;      ///< What it threw last; empty: nothing.
};

/// Thread: any.
class ActorTelemetry {
 public:
  explicit ActorTelemetry(std::string name) : name_{std::move(name)} {}

  void handled() { handled_.fetch_add(1, std::memory_order_relaxed); }
  /// Into its queue, and out of it. Those of which only the latest is kept are not counted: one replaces
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
