#pragma once
/// One thread per logical device, each on its own core.

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace emplace::cpu {

/// Threads exist as long as the pool and sleep between jobs. In each of them OpenMP uses one thread, and
/// denormal numbers are flushed to zero: they are a hundred times slower and irrelevant for networks.
/// Thread: one owner.
class WorkerPool {
 public:
  /// Pins thread k to the k-th core available to this process, round robin. If it cannot be bound, it
  /// stays unbound.
  explicit WorkerPool(std::size_t lanes);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::size_t size() const { return threads_.size(); }
  /// True if every lane has its own core; then waiting threads may spin.
  bool own_cores() const { return own_cores_; }
  /// Runs work(lane) on every lane; all start together. Returns when all have returned.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void serve(std::size_t lane);

  Mutex mutex_;
  Condition wake_, done_;
  const std::function<void(std::size_t)>* work_ EMPLACE_GUARDED_BY(mutex_) = nullptr;
  std::size_t round_ EMPLACE_GUARDED_BY(mutex_) = 0;
  std::size_t running_ EMPLACE_GUARDED_BY(mutex_) = 0;  // Lanes still working on this round.
  bool stopping_ EMPLACE_GUARDED_BY(mutex_) = false;
  std::atomic<std::size_t> arrived_{0};
  bool own_cores_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace emplace::cpu
