#pragma once
/// Host threads that enqueue work, one for each GPU.

#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace emplace::cuda {

/// Threads exist as long as the object and sleep between calls of run(). Thread: one owner.
class GpuThreads {
 public:
  /// @pre count >= 1
  explicit GpuThreads(std::size_t count);
  ~GpuThreads();
  GpuThreads(const GpuThreads&) = delete;
  GpuThreads& operator=(const GpuThreads&) = delete;

  std::size_t size() const { return threads_.size() + 1; }
  /// Runs work(i) for each i < size(), i = 0 on the calling thread. Returns when all have returned. `work`
  /// must not throw.
  void run(const std::function<void(std::size_t)>& work);

 private:
  std::barrier<> start_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;  // Written before start_; null: end.
  std::vector<std::jthread> threads_;
};

}  // namespace emplace::cuda
