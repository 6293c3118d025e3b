#pragma once
/// Runs a task plan by a clock of its own: what real executors do, without devices. The simulator must equal
/// it to the nanosecond, and what real executors add (hazards, an arena that is full) can be tested by it.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/plan/arena.h"
#include "executor/plan/task_plan.h"
#include "executor/real_executor.h"
#include "executor/sim/simulator.h"
#include "executor/sim/step_tables.h"

namespace emplace {

struct FakeOptions {
  TaskPlan::Rules rules = TaskPlan::Rules::kReal;
  Dispatch dispatch = Dispatch::kProgram;
  std::int64_t alignment = 256;  ///< [B] of the arenas.
  /// Memory is the device's and no more: what does not fit ends the step. Else it is counted only.
  bool hard_cap = true;
};

/// Thread: one at a time. `graph` and `devices` must outlive it.
class FakeExecutor final : public RealExecutor {
 public:
  FakeExecutor(const OpGraph& graph, const DeviceSet& devices, FakeOptions options = {});

  std::string_view kind() const override { return "fake"; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
  /// Errors: kUnsupported: it computes nothing.
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  /// What its clock goes by.
  Result<ExecutorProfile> profile() override;
  std::vector<std::string> synthetic_types() const override { return {}; }

 private:
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);

  const FakeOptions options_;
  const StepTables tables_;
  const InPlaceWrites in_place_;
};

}  // namespace emplace
