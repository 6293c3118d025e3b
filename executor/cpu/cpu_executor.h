#pragma once
/// Runs placements on this machine's cores: one pinned thread and one arena per logical device, oneDNN and
/// custom loops for ops, memcpy for links.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "executor/cpu/step_run.h"
#include "executor/real_executor.h"
#include "executor/timing.h"

namespace emplace::cpu {

/// Timing, and differences from a GPU: docs/reference/measurement.md. The receiving device makes a copy and
/// runs no op meanwhile (CopyEngine::kTarget); kernels overlap only across devices. Thread: one at a time;
/// it owns a thread per device. `graph`, `devices` and `clock` must outlive it.
class CpuExecutor final : public RealExecutor {
 public:
  /// Errors: kUnsupported for an op without a kernel if synthetic ops are not allowed; kRunFailed if the
  /// address space for the devices' memory cannot be reserved.
  static Result<std::unique_ptr<CpuExecutor>> make(const OpGraph& graph, const DeviceSet& devices,
                                                   const RealOptions& options, const Clock& clock);

  std::string_view kind() const override { return "cpu"; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    return run(placement, out, nullptr);
  }
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override {
    schedule = {};
    return run(placement, out, &schedule);
  }
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  Result<ExecutorProfile> profile() override;
  std::vector<std::string> synthetic_types() const override;

 private:
  CpuExecutor(const OpGraph& graph, const DeviceSet& devices, const RealOptions& options, const Clock& clock);
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);
  TaskPlan plan(std::span<const DeviceId> placement) const {
    return {lowered_, devices_.size(), placement, TaskPlan::Rules::kReal, &in_place_};
  }
  Machine machine(std::vector<DeviceMemory>& memory) {
    return {lowered_, *kernels_, devices_, costs_, transfers_, clock_, memory, *pool_};
  }
  /// Runs one step and reports progress. Errors: kOutOfMemory; details are in the StepRun.
  Result<double> step(StepRun& steps) const;
  Schedule schedule_of(const TaskPlan& plan, const StepRun& steps) const;
  using Hash = std::pair<std::uint64_t, std::uint64_t>;  // 128 bits of XXH3.
  /// Hashes [ops][outputs] of all tensors of a step. Errors: kRunFailed if it does not fit.
  Result<std::vector<std::vector<Hash>>> fingerprint(std::span<const DeviceId> placement,
                                                     std::span<const std::int64_t> caps,
                                                     std::vector<DeviceMemory>& on);
  /// Appends the times of the whole graph on one device. Errors: kRunFailed if it does not fit there.
  Result<Unit> profile_device(DeviceId device, ExecutorProfile& profile);

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const RealOptions options_;
  const Clock& clock_;
  StepTimer timer_{options_.timing};
  const LoweredGraph lowered_;
  InPlaceWrites in_place_;
  const CostTable costs_;
  const TransferTable transfers_;
  const InitialValues values_;
  std::vector<std::int64_t> caps_;  // [devices] Bytes.
  std::optional<const BoundGraph> kernels_;
  std::vector<DeviceMemory> memory_;  // [devices]
  std::optional<WorkerPool> pool_;
};

/// Computes a known product through the kernels. Errors: kRunFailed if the result is wrong, which means
/// that the library is incompatible with this processor.
Result<Unit> self_test();

}  // namespace emplace::cpu
