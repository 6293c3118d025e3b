#pragma once
/// Runs a task plan on a simulated clock, as real executors do on devices. The simulator must match it to the
/// nanosecond; it also serves to test the additional behaviour of real executors (hazards, a full arena).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "executor/plan/arena.h"
#include "executor/plan/task_plan.h"
#include "executor/real_executor.h"
#include "executor/sim/shared/step_tables.h"
#include "executor/sim/simulator.h"

namespace emplace {

struct FakeOptions {
  TaskPlan::Rules rules = TaskPlan::Rules::kReal;
  Dispatch dispatch = Dispatch::kProgram;
  std::int64_t alignment = 256;  ///< Alignment of the arenas [B].
  /// True: device memory is limited, and a step ends when an allocation fails. False: memory is only counted.
  bool hard_cap = true;
};

/// Thread: one at a time. `graph` and `devices` must outlive it.
class FakeExecutor : public RealExecutor {
 public:
  FakeExecutor(const OpGraph& graph, const DeviceSet& devices, FakeOptions options = {});

  std::string_view kind() const override { return "fake"; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
  /// Errors: kUnsupported, because no results are computed.
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  /// Returns the costs that its clock uses.
  Result<ExecutorProfile> profile() override;
  std::vector<std::string> synthetic_types() const override { return {}; }

 private:
  Result<Unit> run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule);

  const FakeOptions options_;
  const StepTables tables_;
  const InPlaceWrites in_place_;
};

}  // namespace emplace
