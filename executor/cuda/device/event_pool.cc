#include "executor/cuda/device/event_pool.h"

namespace emplace::cuda {

EventPool::~EventPool() {
  for (std::size_t d = 0; d < events_.size(); ++d) {
    if (session_.poisoned() || events_[d].empty()) continue;
    (void)devices_[d].make_current();
    for (const cudaEvent_t event : events_[d])
      session_.give_back([&](const CudaApi& api) { return api.runtime.EventDestroy(event); });
  }
}

Result<cudaEvent_t> EventPool::event(std::size_t device, std::size_t number) {
  EMPLACE_TRY(devices_[device].make_current());
  auto& mine = events_[device];
  while (mine.size() <= number) {
    cudaEvent_t event = nullptr;
    EMPLACE_TRY(
        session_.check(session_.api().runtime.EventCreateWithFlags(&event, flags_), "cudaEventCreate"));
    mine.push_back(event);
  }
  return mine[number];
}

}  // namespace emplace::cuda
