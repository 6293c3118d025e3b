#pragma once
/// A step as a CUDA graph: captured once from the devices' streams, then launched with one call, so that the
/// host does not limit steps of many short kernels.

#include <functional>

#include "executor/cuda/event_pool.h"
#include "executor/cuda/logical_device.h"
#include "executor/cuda/session.h"

namespace emplace::cuda {

/// Thread: one at a time.
class CapturedStep {
 public:
  /// `session` and `devices` must outlive it.
  CapturedStep(Session& session, const DeviceGroup& devices) : session_{session}, devices_{devices} {}
  ~CapturedStep() { drop(); }
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  /// Captures what `enqueue` enqueues on any of the devices' streams, instead of executing it. Its kernels
  /// must have run before: loading a kernel cannot be captured. Errors: those of Session and of `enqueue`;
  /// then nothing is captured and the streams are as before.
  Result<Unit> capture(const std::function<Result<Unit>()>& enqueue);
  bool ready() const { return step_ != nullptr; }
  /// Starts the captured step; DeviceGroup::synchronize() waits for its end. @pre ready()
  Result<Unit> launch();
  void drop();

 private:
  /// Makes all other streams follow the first one.
  Result<Unit> lead_others();
  /// Makes the first stream follow all others.
  Result<Unit> follow_others();
  template <class Visit>
  Result<Unit> visit_others(Visit visit);
  cudaStream_t first() const { return devices_[0].stream(StreamKind::kCompute); }

  Session& session_;
  const DeviceGroup& devices_;
  EventPool events_{session_, devices_, cudaEventDisableTiming};
  cudaGraphExec_t step_ = nullptr;
};

}  // namespace emplace::cuda
