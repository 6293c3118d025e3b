#pragma once
/// One thread per logical device, each on a core of its own.

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace emplace::cpu {

/// Threads live as long as the pool; they sleep between jobs. OpenMP has width 1 in each of them, and
/// denormal numbers count as zero there: they would cost a hundred times as long, and no network means them.
/// Thread: one owner.
class WorkerPool {
 public:
  /// Thread k goes to the k-th core that this process may use, round robin; without hwloc's leave it stays
  /// free.
  explicit WorkerPool(std::size_t lanes);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::size_t size() const { return threads_.size(); }
  /// True if every lane has a core that no other lane has: then waiting may spin.
  bool own_cores() const { return own_cores_; }
  /// Runs work(lane) on every lane at once; all begin together, and it returns when all have returned.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void serve(std::size_t lane);

  Mutex mutex_;
  Condition wake_, done_;
  const std::function<void(std::size_t)>* work_ EMPLACE_GUARDED_BY(mutex_) = nullptr;
  std::size_t round_ EMPLACE_GUARDED_BY(mutex_) = 0;
  std::size_t running_ EMPLACE_GUARDED_BY(mutex_) = 0;  // Lanes that still work on this round.
  bool stopping_ EMPLACE_GUARDED_BY(mutex_) = false;
  std::atomic<std::size_t> arrived_{0};
  bool own_cores_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace emplace::cpu
