#pragma once
/// What the devices do in one step of a placed graph: kernels and copies, who waits for whom, and which
/// memory each takes and gives back. The rules are the simulator's (docs/reference/measurement.md); executors
/// that run something walk this.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/lowering.h"
#include "placement/placement.h"

namespace emplace {

/// Which updates write where their first input lies, as an optimiser does. Independent of the placement.
class InPlaceWrites {
 public:
  explicit InPlaceWrites(const LoweredGraph& lowered);
  /// The state whose memory output 0 of the kernel replaces; kNoOp for none.
  OpId state_written(OpId op) const { return state_[index(op)]; }
  /// Its kernel cannot: it gets memory of its own.
  void keep_apart(OpId op) { state_[index(op)] = kNoOp; }

 private:
  std::vector<OpId> state_;
};

/// One placement's tasks. Immutable; any thread; `lowered` must outlive it.
class TaskPlan {
 public:
  /// What memory is counted as, and what runs before what.
  enum class Rules : std::uint8_t {
    kSimulated,  ///< As the simulator: `update` ops take none and overwrite whenever they are ready.
    kReal,  ///< What a kernel writes must be somewhere: an update that overwrites state waits for those who
            ///< still read it, any other takes memory.
  };

  struct Task {
    bool is_copy = false;
    std::uint32_t what = 0;  ///< Kernel: its op. Copy: its buffer.
    DeviceId source{};       ///< Kernel: its device. Copy: where the buffer is.
    DeviceId target{};       ///< Kernel: its device. Copy: where it goes.
  };
  /// Memory on one device, for one tensor or one copy.
  struct Slot {
    DeviceId device{};
    std::int64_t bytes = 0;
    std::uint32_t uses = 0;  ///< Tasks after whose end it is free; 0 for state.
    bool resident = false;   ///< There for the whole step.
    BufferId buffer{};
  };

  TaskPlan(const LoweredGraph& lowered, std::size_t devices, std::span<const DeviceId> placement, Rules rules,
           const InPlaceWrites* in_place = nullptr);

  const LoweredGraph& lowered() const { return *lowered_; }
  std::size_t num_devices() const { return num_devices_; }
  std::span<const Task> tasks() const { return tasks_; }
  std::span<const Slot> slots() const { return slots_; }
  /// Tasks that must have ended before this one may start.
  std::uint32_t waits(std::size_t task) const { return waits_[task]; }
  /// Tasks that wait for this one, in the order in which they learn of its end.
  std::span<const std::uint32_t> successors(std::size_t task) const { return row(successors_, task); }
  /// Tasks that wait for nothing, copies first, each in the order in which they are asked for.
  std::span<const std::uint32_t> sources() const { return sources_; }
  /// Slots that a task takes at its start.
  std::span<const std::uint32_t> takes(std::size_t task) const { return row(takes_, task); }
  /// Slots that a task is done with at its end.
  std::span<const std::uint32_t> uses(std::size_t task) const { return row(uses_, task); }

  static constexpr std::uint32_t kNone = 0xffffffffu;
  /// Where a kernel finds a buffer that it reads, and where its outputs go. kNone for a buffer that is
  /// nowhere.
  std::uint32_t read_slot(OpId op, BufferId buffer) const;
  std::uint32_t home_slot(BufferId buffer) const { return home_[index(lowered_->base(buffer))]; }
  /// True if the kernel reads a copy of the buffer, not the buffer.
  bool reads_copy(OpId op, BufferId buffer) const { return device(op) != device(lowered_->owner(buffer)); }
  DeviceId device(OpId op) const { return place_[index(op)]; }
  /// The slot that a copy task fills.
  std::uint32_t copy_slot(std::size_t task) const { return takes(task).front(); }

 private:
  /// Rows of numbers, one per task.
  struct Rows {
    std::vector<std::uint32_t> begin, values;
  };
  static std::span<const std::uint32_t> row(const Rows& rows, std::size_t i) {
    return {rows.values.data() + rows.begin[i], rows.begin[i + 1] - rows.begin[i]};
  }
  static Rows gather(std::size_t rows, std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs);

  const LoweredGraph* lowered_;
  std::size_t num_devices_;
  std::vector<DeviceId> place_;
  std::vector<Task> tasks_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> waits_, sources_;
  std::vector<std::uint32_t> home_;                                  // [buffers] slot of a whole one
  std::vector<std::pair<std::uint64_t, std::uint32_t>> copy_slots_;  // (buffer, device) → slot; sorted
  Rows successors_, takes_, uses_;
};

}  // namespace emplace
