#pragma once
/// A step as a CUDA graph: captured once from the devices' streams, then launched with one call, so that the
/// host does not limit steps of many short kernels.

#include <functional>
#include <vector>

#include "executor/cuda/device/event_pool.h"
#include "executor/cuda/device/logical_device.h"
#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {

/// Thread: one at a time.
class CapturedStep {
 public:
  /// `session` and `devices` must outlive it.
  CapturedStep(Session& session, const DeviceGroup& devices) : session_{session}, devices_{devices} {}

  /// Captures what `enqueue` enqueues on the streams of `used`, instead of executing it. Its kernels must
  /// have run before: loading a kernel cannot be captured. Errors: those of Session and of `enqueue`; then
  /// nothing is captured and the streams are as before. @pre `used` is not empty
  Result<Unit> capture(std::vector<std::size_t> used, const std::function<Result<Unit>()>& enqueue);
  bool ready() const { return step_.get() != nullptr; }
  /// Starts the captured step on the compute stream of the first device of `used`, which waits for its end.
  /// Other devices are not disturbed. @pre ready()
  Result<Unit> launch();
  void drop() { step_ = {}; }

 private:
  /// Makes all other streams follow the first one.
  Result<Unit> lead_others();
  /// Makes the first stream follow all others.
  Result<Unit> follow_others();
  template <class Visit>
  Result<Unit> visit_others(Visit visit);
  cudaStream_t first() const { return devices_[used_.front()].stream(StreamKind::kCompute); }

  Session& session_;
  const DeviceGroup& devices_;
  EventPool events_{session_, devices_, cudaEventDisableTiming};
  std::vector<std::size_t> used_;
  Owned<cudaGraphExec_t, &CudaApi::runtime, &RuntimeApi::GraphExecDestroy> step_;
};

}  // namespace emplace::cuda
