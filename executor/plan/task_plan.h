#pragma once
/// Tasks of one step of a placed graph: kernels and copies, their dependencies, and the memory that each
/// allocates and releases. The rules are the simulator's (docs/reference/measurement.md). All executors that
/// run tasks use this plan.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/lowering.h"
#include "placement/placement.h"

namespace emplace {

/// Tasks of one placement. Immutable; any thread; `lowered` must outlive it.
class TaskPlan {
 public:
  /// Rules for memory and order.
  enum class Rules : std::uint8_t {
    kSimulated,  ///< The simulator's rules: `update` ops allocate no memory and run when ready.
    /// Every output has memory: an update that overwrites state waits for the remaining readers of the state;
    /// any other update allocates.
    kReal,
  };

  struct Task {
    bool is_copy = false;
    std::uint32_t what = 0;  ///< Kernel: its op. Copy: its buffer.
    DeviceId source{};       ///< Kernel: its device. Copy: device of the buffer.
    DeviceId target{};       ///< Kernel: its device. Copy: target device.
  };
  /// Memory on one device for one tensor or copy.
  struct Slot {
    DeviceId device{};
    std::int64_t bytes = 0;
    std::uint32_t uses = 0;  ///< Number of tasks after whose end it is released; 0 for state.
    bool resident = false;   ///< Allocated for the whole step.
    BufferId buffer{};
  };

  TaskPlan(const LoweredGraph& lowered, std::size_t devices, std::span<const DeviceId> placement, Rules rules,
           const InPlaceWrites* in_place = nullptr);

  const LoweredGraph& lowered() const { return *lowered_; }
  std::size_t num_devices() const { return num_devices_; }
  std::span<const Task> tasks() const { return tasks_; }
  std::span<const Slot> slots() const { return slots_; }
  /// Number of tasks that must end before this one may start.
  std::uint32_t waits(std::size_t task) const { return waits_[task]; }
  /// Tasks that wait for this one, in notification order.
  std::span<const std::uint32_t> successors(std::size_t task) const { return row(successors_, task); }
  /// Tasks without dependencies, copies first, each in the order in which they are requested.
  std::span<const std::uint32_t> sources() const { return sources_; }
  /// Slots that a task allocates at its start.
  std::span<const std::uint32_t> takes(std::size_t task) const { return row(takes_, task); }
  /// Slots that a task releases at its end.
  std::span<const std::uint32_t> uses(std::size_t task) const { return row(uses_, task); }

  static constexpr std::uint32_t kNone = 0xffffffffu;
  /// Slots of a kernel's input buffer and of an output buffer. kNone for a buffer without memory.
  std::uint32_t read_slot(OpId op, BufferId buffer) const;
  std::uint32_t home_slot(BufferId buffer) const { return home_[index(lowered_->base(buffer))]; }
  /// True if the kernel reads a copy of the buffer, not the buffer.
  bool reads_copy(OpId op, BufferId buffer) const { return device(op) != device(lowered_->owner(buffer)); }
  DeviceId device(OpId op) const { return place_[index(op)]; }
  /// The slot that a copy task writes.
  std::uint32_t copy_slot(std::size_t task) const { return takes(task).front(); }

 private:
  /// CSR rows of numbers, one row per task.
  struct Rows {
    std::vector<std::uint32_t> begin, values;
  };
  static std::span<const std::uint32_t> row(const Rows& rows, std::size_t i) {
    return {rows.values.data() + rows.begin[i], rows.begin[i + 1] - rows.begin[i]};
  }
  class Making;  // The stages of the constructor.

  const LoweredGraph* lowered_;
  std::size_t num_devices_;
  std::vector<DeviceId> place_;
  std::vector<Task> tasks_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> waits_, sources_;
  std::vector<std::uint32_t> home_;                                  // [buffers] Slot of each whole buffer.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> copy_slots_;  // (buffer, device) → slot; sorted.
  Rows successors_, takes_, uses_;
};

}  // namespace emplace
