#include "executor/cuda/stream/gpu_threads.h"

namespace emplace::cuda {

GpuThreads::GpuThreads(std::size_t count)
    : start_{static_cast<std::ptrdiff_t>(count)}, done_{static_cast<std::ptrdiff_t>(count)} {
  for (std::size_t i = 1; i < count; ++i) {
    threads_.emplace_back([this, i] {
      for (;;) {
        start_.arrive_and_wait();
        if (work_ == nullptr) return;
        (*work_)(i);
        done_.arrive_and_wait();
      }
    });
  }
}

GpuThreads::~GpuThreads() {
  work_ = nullptr;
  start_.arrive_and_wait();
}

void GpuThreads::run(const std::function<void(std::size_t)>& work) {
  work_ = &work;
  start_.arrive_and_wait();
  work(0);
  done_.arrive_and_wait();
}

}  // namespace emplace::cuda
