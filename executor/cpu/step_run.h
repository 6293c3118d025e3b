#pragma once
/// Executes the steps of one placement on real memory; each lane is a thread.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "executor/cpu/bound_graph.h"
#include "executor/cpu/device_memory.h"
#include "executor/cpu/worker_pool.h"
#include "executor/kernel/initial_values.h"
#include "executor/plan/arena.h"
#include "executor/plan/out_of_memory.h"
#include "executor/plan/task_plan.h"
#include "executor/sim/shared/ready_set.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/transfer_table.h"

namespace emplace::cpu {

/// State that is independent of the placement. Thread: see the members.
struct Machine {
  const LoweredGraph& lowered;
  const BoundGraph& kernels;
  const DeviceSet& devices;
  const CostTable& costs;          ///< Durations of synthetic ops.
  const TransferTable& transfers;  ///< Durations of copies over shaped links.
  const Clock& clock;
  std::vector<DeviceMemory>& memory;  ///< [devices]
  WorkerPool& pool;                   ///< One lane per device.
};

/// Timestamps of a task, relative to the step's start [ns].
struct TaskTime {
  std::int64_t picked = 0;  ///< A lane picked the task.
  std::int64_t start = 0;   ///< Its kernel or copy started.
  std::int64_t end = 0;     ///< Its kernel or copy ended.
  std::int64_t closed = 0;  ///< Its dependent tasks were notified.
};

/// Thread: one owner; the steps run on the pool.
class StepRun {
 public:
  /// Called after each kernel with its output, on the lane's thread.
  using Watch = std::function<void(OpId op, std::size_t output, std::span<const std::byte>)>;

  /// `caps` [devices]: bytes of each arena.
  StepRun(const Machine& machine, const TaskPlan& plan, std::span<const std::int64_t> caps);
  ~StepRun();

  /// Allocates state and kernel scratch, and initialises the state. Returns false if a device is full; see
  /// out_of_memory().
  bool prepare(const InitialValues& values);
  /// Runs one step and returns its duration [s], from the start of the first task to the end of the last.
  /// Empty if a device was full; then no further step may follow. State keeps the values that the step
  /// wrote.
  std::optional<double> step(const Watch* watch = nullptr);

  std::optional<OutOfMemory> out_of_memory() const;
  /// Task times of the last step.
  std::span<const TaskTime> times() const { return times_; }
  std::int64_t peak_bytes(DeviceId device) const;
  std::int64_t bytes_moved() const { return bytes_moved_; }

 private:
  struct Lane;
  void serve(std::size_t lane);
  std::optional<std::uint32_t> next_task(Lane& lane);
  bool take(std::uint32_t slot, OpId op);
  void give(std::uint32_t slot);
  void make_ready(std::uint32_t task);
  void run_kernel(Lane& lane, std::uint32_t task);
  std::byte* pack_inputs(Lane& lane, OpId op, const BoundKernel& bound) const;
  void run_copy(std::uint32_t task);
  void run_synthetic(Lane& lane, OpId op);
  void end_step();
  std::int64_t now() const { return clock_.now().count(); }
  std::byte* memory(std::uint32_t slot) const;

  const Machine& machine_;
  const Clock& clock_;
  const TaskPlan& plan_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::atomic<std::uint32_t>> waits_, uses_;  // [tasks], [slots]
  std::vector<std::int64_t> offsets_;                     // [slots]
  std::vector<TaskTime> times_;                           // [tasks]
  std::int64_t bytes_moved_ = 0;
  std::atomic<std::uint32_t> left_{0};  // Remaining tasks of the step.
  std::atomic<bool> over_{false};
  mutable Mutex oom_mutex_;
  std::optional<OutOfMemory> oom_ EMPLACE_GUARDED_BY(oom_mutex_);
  const Watch* watch_ = nullptr;
};

}  // namespace emplace::cpu
