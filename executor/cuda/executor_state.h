#pragma once
/// What the CUDA executor keeps between placements. Internal to executor/cuda.

#include <memory>
#include <optional>
#include <vector>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/step_stream.h"
#include "executor/kernel/initial_values.h"
#include "executor/sim/simulator.h"

namespace emplace::cuda {

/// Pinned memory of the host; stays where it is once the session is poisoned.
class PinnedMemory {
 public:
  explicit PinnedMemory(Session& session) : session_{session} {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  Result<std::byte*> take(std::int64_t bytes);

 private:
  Session& session_;
  std::vector<void*> blocks_;
};

/// As measure(), verify() and profile() return it: kDeviceLost, or kRunFailed.
Error call_failed(const Error& error);

struct CudaExecutor::State {
  State(const OpGraph& graph, const DeviceSet& devices, const RealOptions& options, const Clock& clock,
        const CudaApi& api);

  TaskPlan plan(std::span<const DeviceId> placement) const;
  StepProgram program(const TaskPlan& plan);
  /// Fills state and gets the stream ready. Errors: of Session.
  Result<Unit> prepare(const TaskPlan& plan, const StepProgram& program);
  /// Synchronous copies. Errors: of Session.
  Result<Unit> to_device(std::size_t device, std::byte* to, std::span<const std::byte> from);
  Result<Unit> from_device(std::size_t device, const std::byte* from, std::span<std::byte> to);
  /// StepStream::step, and progress for who looks.
  Result<double> step(const StepProgram& program);
  /// After an error: kOutOfMemory leaves the devices drained.
  Error failed(const Error& error);

  const OpGraph& graph;
  const DeviceSet& devices;
  const RealOptions options;
  const Clock& clock;
  const LoweredGraph lowered;
  InPlaceWrites in_place;
  const CostTable costs;
  const InitialValues values;
  Simulator simulator;
  Session session;  // First of what calls CUDA: it outlives the rest.
  std::unique_ptr<DeviceGroup> group;
  std::vector<BoundGraph> kernels;  // [devices]
  std::unique_ptr<PinnedMemory> pinned;
  std::vector<std::byte*> stages;  // [devices, 2]
  std::unique_ptr<StepStream> stream;
  std::vector<std::vector<std::byte>> initial;  // [buffers] what state begins with; made when first wanted.
  double clock_ratio = 1;
};

}  // namespace emplace::cuda
