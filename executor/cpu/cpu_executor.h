#pragma once
/// Runs placements on this machine's cores: one pinned thread and one arena per logical device, oneDNN and
/// custom loops for ops, memcpy for links.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "executor/real_executor.h"

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
  ~CpuExecutor() override;

  std::string_view kind() const override { return "cpu"; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  Result<ExecutorProfile> profile() override;
  std::vector<std::string> synthetic_types() const override;

 private:
  struct State;
  explicit CpuExecutor(std::unique_ptr<State> state);
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);

  std::unique_ptr<State> state_;
};

}  // namespace emplace::cpu
