#pragma once
/// Shared by all list schedulers: a schedule that grows op by op, with the queues, links and memory model of
/// the simulator (docs/reference/heuristics.md, "Memory").

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "placement/idle_gaps.h"
#include "placement/machine/transfer_table.h"
#include "solver/list/memory_history.h"
#include "solver/method.h"
#include "solver/partitioners/placing_units.h"

namespace emplace {

/// Data that are constant over all schedules of a problem.
struct ListTask {
  explicit ListTask(const Problem& problem_in);
  /// Time of a transfer as it is simulated [ns].
  std::int64_t transfer_ns(std::size_t source, std::size_t target, std::int64_t bytes) const {
    return transfers.ns(static_cast<DeviceId>(source), static_cast<DeviceId>(target), bytes);
  }

  const Problem problem;
  LoweredGraph lowered;
  TransferTable transfers;
  std::vector<std::int64_t> best_ns;  ///< [ops] Time on the fastest device that the op may use [ns].
  std::int64_t state_bytes = 0;       ///< State of the whole graph [B].
};

/// Devices and memory margins of one attempt.
struct ListLimits {
  std::vector<DeviceId> devices;  ///< Devices to schedule on.
  std::vector<DeviceId> refuge;   ///< Fallback devices for units that fit on none of `devices`; may be empty.
  double reserve = 0;             ///< Share of each device's memory to keep free, in [0, 1).
  /// State on a device is at most this factor times its share (by memory) of all state; 0: no limit.
  double state_slack = 0;
};

/// A schedule of the ops placed so far.
///
/// Memory: the state of a unit is charged to a device for the whole step when the first op of the unit, or
/// the first reader of its state, is placed there. A result is alive from the start of its op. A copy is
/// alive from the time at which its tensor exists and the engine is free; if its reader is placed late, that
/// time is in the past, and the past must have room for it too. Lifetimes end once the last reader is placed:
/// a result with its last local reader or outgoing copy, a copy with its last reader on that device. If units
/// have live bytes (PlacingUnits::live_bytes), a device accepts a unit only if all its units together fit at
/// every later moment. Thread: one.
class PartialSchedule {
 public:
  PartialSchedule(const ListTask& task, const PlacingUnits& units, const ListLimits& limits);

  const ListTask& task() const { return task_; }
  const PlacingUnits& units() const { return units_; }
  const ListLimits& limits() const { return limits_; }

  /// Writes the candidate devices of the op: its unit's device if assigned, else the allowed ones of
  /// `limits().devices`, else of `refuge`, else any allowed one.
  void candidates(OpId op, std::vector<std::uint32_t>& out) const;
  /// The unit's device; -1 if unassigned.
  std::int32_t device_of(std::uint32_t unit) const { return device_of_unit_[unit]; }
  bool is_placed(OpId op) const { return end_ns_[index(op)] >= 0; }
  /// Time at which all inputs of the op are on the device if its copies were issued now [ns].
  std::int64_t data_ready_ns(OpId op, std::size_t device) const;
  /// Time at which the device finishes the ops placed on it [ns].
  std::int64_t free_ns(std::size_t device) const { return free_ns_[device]; }
  std::int64_t end_ns(OpId op) const { return end_ns_[index(op)]; }

  /// Bytes over the limits if the op started there at `start_ns`; <= 0: it fits. Without the reserve and the
  /// slack: bytes over the device's memory. Memory released before `start_ns` is discarded, so calls must be
  /// in order of time.
  std::int64_t bytes_over(OpId op, std::size_t device, std::int64_t start_ns, bool with_reserve = true);
  /// Returns a device for an op that fits on no candidate: a refuge device with room; without refuge devices
  /// the candidate whose memory, reserve included, has room and where its data arrive first; else the
  /// candidate with the smallest overflow. Marks the schedule as tight.
  std::size_t refuge_for(OpId op, const std::vector<std::uint32_t>& candidates);
  /// True if a candidate was rejected for memory.
  bool was_tight() const { return tight_; }
  void note_refusal() { tight_ = true; }

  /// Issues the copies that the op needs on the device; returns the arrival of the last one (or the time at
  /// which the data exist) [ns]. State without a device is assigned to this device. @pre all ops that it
  /// reads from are placed.
  std::int64_t order_copies(OpId op, std::size_t device);
  /// Places the op at `start_ns` after order_copies(): allocates its memory and releases inputs that it reads
  /// last.
  void place(OpId op, std::size_t device, std::int64_t start_ns);

  /// Returns the device of every op. State without readers goes to the device with most free memory, views to
  /// the device of their base.
  Placement placement() &&;

 private:
  void use(BufferId buffer, std::size_t device, std::int64_t until_ns) {
    std::int64_t& last = last_use_ns_[index(buffer) * num_devices_ + device];
    last = std::max(last, until_ns);
  }
  void settle(std::uint32_t unit, std::size_t device);
  std::int64_t* arrival(BufferId buffer) { return &arrival_ns_[index(buffer) * num_devices_]; }
  const std::int64_t* arrival(BufferId buffer) const { return &arrival_ns_[index(buffer) * num_devices_]; }
  /// Device of the buffer; for state without a device, the reader's.
  std::size_t home(BufferId buffer, std::size_t reader_device) const;

  const ListTask& task_;
  const PlacingUnits& units_;
  const ListLimits& limits_;
  const std::size_t num_devices_;
  bool tight_ = false;
  std::vector<std::int32_t> device_of_unit_;
  std::vector<std::int64_t> end_ns_;         // [ops] -1: not placed.
  std::vector<std::int64_t> arrival_ns_;     // [buffers, devices] Arrival of a copy; -1: none.
  std::vector<std::int64_t> last_use_ns_;    // [buffers, devices] Last use so far.
  std::vector<std::uint32_t> readers_left_;  // [buffers]
  // [buffers] For whole tensors: readers, including those of their parts.
  std::vector<std::uint32_t> references_;
  std::vector<std::int64_t> free_ns_;  // [devices]
  std::vector<IdleGaps> engines_;      // [devices] Outgoing copies.
  MemoryHistory memory_;
  std::vector<std::int64_t> state_used_;                 // [devices]
  std::vector<std::int64_t> limit_bytes_, state_limit_;  // [devices]
  std::vector<std::int64_t> committed_;  // [devices, moments] Live bytes of the units assigned to a device.
  std::vector<std::uint32_t> touched_;   // Units seen while bytes are counted.
};

/// Fills a schedule: the part in which list schedulers differ.
using Lister = std::function<void(PartialSchedule&)>;

/// Runs `lister` at the granularity of classes, of scopes (a layer's backward ops then follow its forward
/// ops) and of scopes of all time steps together, with and without the CPU. While memory is tight, it also
/// tries reserves of 0, 5, 10, 20, 30 and 40 % with decreasing slack in the balance of state (on large
/// problems 0, 10 and 30 %). Offers every schedule. Errors: the executor's.
Result<Answer> best_over_reserves(const ListTask& task, Executor& executor, const Lister& lister);

}  // namespace emplace
