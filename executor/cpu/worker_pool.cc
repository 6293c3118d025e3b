#include "executor/cpu/worker_pool.h"

#include <omp.h>
#include <sched.h>

#include <cerrno>

#include "base/denormals.h"

namespace emplace::cpu {
namespace {

/// The cores available to this process; empty if they are unknown.
std::vector<std::size_t> available_cores() {
  std::vector<std::size_t> cores;
  // The kernel refuses a set that is smaller than its own, which has more than 1024 cores on some machines.
  for (std::vector<cpu_set_t> sets(1); sets.size() <= 64; sets.resize(2 * sets.size())) {
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, sets.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    for (std::size_t core = 0; core < sets.size() * CPU_SETSIZE; ++core)
      if (CPU_ISSET_S(core, bytes, sets.data())) cores.push_back(core);
    break;
  }
  return cores;
}

void bind_this_thread(std::size_t core) {
  std::vector<cpu_set_t> sets(core / CPU_SETSIZE + 1);
  const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
  CPU_SET_S(core, bytes, sets.data());
  (void)::sched_setaffinity(0, bytes, sets.data());  // An unbound lane is slower but correct.
}

}  // namespace

WorkerPool::WorkerPool(std::size_t lanes) {
  const auto cores = available_cores();
  own_cores_ = lanes <= cores.size();
  for (std::size_t lane = 0; lane < lanes; ++lane)
    threads_.emplace_back([this, lane, cores] {
      if (!cores.empty()) bind_this_thread(cores[lane % cores.size()]);
      omp_set_num_threads(1);
      const FlushDenormals flush;
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
