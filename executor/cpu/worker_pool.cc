#include "executor/cpu/worker_pool.h"

#include <hwloc.h>
#include <omp.h>
#include <xmmintrin.h>

#include <memory>

namespace emplace::cpu {
namespace {

/// The cores available to this process.
class Cores {
 public:
  Cores() {
    if (hwloc_topology_init(&topology_) != 0) return;
    loaded_ = hwloc_topology_load(topology_) == 0;
    if (!loaded_) return;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (hwloc_get_cpubind(topology_, allowed, HWLOC_CPUBIND_PROCESS) != 0)
      hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology_));
    for (int pu = hwloc_bitmap_first(allowed); pu >= 0; pu = hwloc_bitmap_next(allowed, pu))
      units_.push_back(pu);
    hwloc_bitmap_free(allowed);
  }
  ~Cores() {
    if (topology_ != nullptr) hwloc_topology_destroy(topology_);
  }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  std::size_t count() const { return units_.size(); }
  bool bind_this_thread(std::size_t lane) const {
    if (units_.empty()) return false;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_bitmap_set(set, static_cast<unsigned>(units_[lane % units_.size()]));
    const bool bound = hwloc_set_cpubind(topology_, set, HWLOC_CPUBIND_THREAD) == 0;
    hwloc_bitmap_free(set);
    return bound;
  }

 private:
  hwloc_topology_t topology_ = nullptr;
  bool loaded_ = false;
  std::vector<int> units_;
};

}  // namespace

WorkerPool::WorkerPool(std::size_t lanes) {
  const auto cores = std::make_shared<const Cores>();
  own_cores_ = lanes <= cores->count();
  for (std::size_t lane = 0; lane < lanes; ++lane)
    threads_.emplace_back([this, lane, cores] {
      (void)cores->bind_this_thread(lane);  // An unbound lane is slower but correct.
      omp_set_num_threads(1);
      _mm_setcsr(_mm_getcsr() | 0x8040);  // Flushes denormals to zero, as operands and results.
      serve(lane);
    });
}

WorkerPool::~WorkerPool() {
  {
    const MutexLock lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const std::function<void(std::size_t)>& work) {
  const MutexLock lock{mutex_};
  work_ = &work;
  running_ = threads_.size();
  arrived_.store(0);
  ++round_;
  wake_.notify_all();
  while (running_ != 0) done_.wait(mutex_);
  work_ = nullptr;
}

void WorkerPool::serve(std::size_t lane) {
  std::size_t served = 0;
  for (;;) {
    const std::function<void(std::size_t)>* work = nullptr;
    {
      const MutexLock lock{mutex_};
      while (!stopping_ && round_ == served) wake_.wait(mutex_);
      if (stopping_) return;
      served = round_;
      work = work_;
    }
    // All lanes start together, so that thread wake-up time is not part of the step.
    arrived_.fetch_add(1);
    while (arrived_.load() < threads_.size())
      if (!own_cores_) std::this_thread::yield();
    (*work)(lane);
    const MutexLock lock{mutex_};
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace emplace::cpu
