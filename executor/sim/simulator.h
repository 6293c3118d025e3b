#pragma once
/// The event-driven simulator: one training step of a placed graph, with exact dispatch order, per-device
/// queues, links and memory by lifetime.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "executor/executor.h"
#include "executor/sim/shared/dispatch.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace {

struct SimulatorOptions {
  Dispatch dispatch = Dispatch::kProgram;
  /// Records a step and simulates of later ones only the part affected by their difference. For local search,
  /// where consecutive placements differ in few ops, whether moves are kept or reverted. Results are
  /// bit-identical.
  bool incremental = false;
};

/// What a search needs of a measurement.
struct StepCost {
  double step_time_s = 0;
  std::int64_t bytes_over = 0;
};

/// The default model (docs/reference/measurement.md). One op at a time per device; one outgoing copy engine
/// per device, FIFO, busy for latency + bytes / bandwidth; copies overlap ops; one copy per (buffer, target
/// device). Times are int64 ns. Memory: state is resident where it is placed; a tensor is alive from the
/// start of its op to the end of its last reader or outgoing copy; a copy is alive at the target from the
/// start of its transfer to the end of its last reader there.
///
/// Thread: construct anywhere, then one thread at a time; simulators of one graph share nothing mutable.
/// `graph`, `devices` and `constraints` must outlive it. No allocation per evaluation after the first
/// few.
class Simulator final : public Executor {
 public:
  Simulator(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions options = {});
  /// With the times of the ops, where these are known already.
  Simulator(const OpGraph& graph, const DeviceSet& devices, CostTable costs, SimulatorOptions options = {});
  ~Simulator() override;
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  std::string_view kind() const override { return "sim"; }
  /// Errors: kInvalid if the length is not the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  /// The cost that measure() would give; nothing if the step takes longer than the limit, which often shows
  /// long before its end. Half of the time of measure(), or less. Errors: as measure().
  Result<std::optional<StepCost>> measure_within(std::span<const DeviceId> placement, double limit_s);
  /// Measures and records a schedule.
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule);

  /// Later steps take ready ops in this order instead of by id; empty: by id again. Gives what a simulator of
  /// the renumbered graph (graph/order.h) gives if views that are parts of one tensor keep their relative
  /// order. Costs O(ops + reads), less than a step. Errors: kInvalid if it is no permutation of the ops;
  /// kUnsupported in `fifo` dispatch, which has no order.
  Result<Unit> set_order(std::span<const OpId> order);

  const CostTable& costs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace
