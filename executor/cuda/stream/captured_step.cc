#include "executor/cuda/stream/captured_step.h"

#include <utility>

namespace emplace::cuda {

/// Calls `visit` with each stream but the first, and an event of its device.
template <class Visit>
Result<Unit> CapturedStep::visit_others(Visit visit) {
  for (const std::size_t d : used_) {
    for (std::size_t kind = 0; kind < kStreamsPerDevice; ++kind) {
      const cudaStream_t stream = devices_[d].stream(static_cast<StreamKind>(kind));
      if (stream == first()) continue;
      EMPLACE_TRY_ASSIGN(const cudaEvent_t event, events_.event(d, kind));  // Makes the device current.
      EMPLACE_TRY(visit(stream, event));
    }
  }
  return Unit{};
}

Result<Unit> CapturedStep::lead_others() {
  EMPLACE_TRY_ASSIGN(const cudaEvent_t begin, events_.event(used_.front(), kStreamsPerDevice));
  EMPLACE_TRY(session_.check(session_.api().runtime.EventRecord(begin, first()), "cudaEventRecord"));
  return visit_others([&](cudaStream_t stream, cudaEvent_t) {
    return session_.check(session_.api().runtime.StreamWaitEvent(stream, begin, 0), "cudaStreamWaitEvent");
  });
}

Result<Unit> CapturedStep::follow_others() {
  return visit_others([&](cudaStream_t stream, cudaEvent_t event) -> Result<Unit> {
    const RuntimeApi& runtime = session_.api().runtime;
    EMPLACE_TRY(session_.check(runtime.EventRecord(event, stream), "cudaEventRecord"));
    return session_.check(runtime.StreamWaitEvent(first(), event, 0), "cudaStreamWaitEvent");
  });
}

Result<Unit> CapturedStep::capture(std::vector<std::size_t> used,
                                   const std::function<Result<Unit>()>& enqueue) {
  drop();
  used_ = std::move(used);
  // Creating an event is not allowed while a stream is captured.
  EMPLACE_TRY(events_.event(used_.front(), kStreamsPerDevice));
  EMPLACE_TRY(visit_others([](cudaStream_t, cudaEvent_t) -> Result<Unit> { return Unit{}; }));
  EMPLACE_TRY(devices_[used_.front()].make_current());
  EMPLACE_TRY(
      session_.check(session_.api().runtime.StreamBeginCapture(first(), cudaStreamCaptureModeThreadLocal),
                     "cudaStreamBeginCapture"));
  const auto captured = [&]() -> Result<Unit> {
    EMPLACE_TRY(lead_others());
    EMPLACE_TRY(enqueue());
    EMPLACE_TRY(follow_others());
    return devices_[used_.front()].make_current();
  }();
  if (session_.poisoned()) return session_.sticky_error();
  cudaGraph_t graph = nullptr;  // Ended in any case, so that the streams execute again.
  const auto ended =
      session_.check(session_.api().runtime.StreamEndCapture(first(), &graph), "cudaStreamEndCapture");
  auto made = captured ? ended : captured;
  cudaGraphExec_t step = nullptr;
  if (made)
    made = session_.check(session_.api().runtime.GraphInstantiate(&step, graph, 0), "cudaGraphInstantiate");
  if (made) *step_.fill(session_) = step;
  if (graph != nullptr)
    session_.give_back([&](const CudaApi& api) { return api.runtime.GraphDestroy(graph); });
  return made;
}

Result<Unit> CapturedStep::launch() {
  EMPLACE_TRY(devices_[used_.front()].make_current());
  return session_.check(session_.api().runtime.GraphLaunch(step_.get(), first()), "cudaGraphLaunch");
}

}  // namespace emplace::cuda
