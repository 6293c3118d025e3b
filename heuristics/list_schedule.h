#pragma once
/// What list schedulers have in common: a schedule that grows op by op, with the machine's queues, links and
/// memory as the simulator has them (docs/reference/heuristics.md, "Memory").

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "heuristics/idle_gaps.h"
#include "heuristics/memory_history.h"
#include "heuristics/method.h"
#include "heuristics/placing_units.h"

namespace emplace {

/// Constant over all schedules of one problem.
struct ListTask {
  explicit ListTask(const Problem& problem_in);
  std::int64_t transfer_ns(std::size_t source, std::size_t target, std::int64_t bytes) const {
    const std::size_t pair = source * problem.devices.size() + target;
    return static_cast<std::int64_t>(latency_ns[pair] + static_cast<double>(bytes) * ns_per_byte[pair]);
  }

  const Problem problem;
  LoweredGraph lowered;
  std::vector<double> latency_ns, ns_per_byte;  ///< [devices, devices]
  std::vector<std::int64_t> best_ns;            ///< [ops] on the fastest device that the op may use
  std::int64_t state_bytes = 0;                 ///< Of the whole graph.
};

/// Where ops may go, and how much memory must be left over. One attempt.
struct ListLimits {
  std::vector<DeviceId> devices;  ///< Those that are scheduled on.
  std::vector<DeviceId> refuge;   ///< Taken only by what fits none of `devices`; may be empty.
  double reserve = 0;             ///< Share of each device's memory that stays free, in [0, 1).
  /// State on a device is at most this times its share (by memory) of all state; 0: as much as fits.
  double state_slack = 0;
};

/// A schedule of the ops placed so far.
///
/// Memory: state is charged to a device, the whole unit at once and for the whole step, when the first op of
/// the unit, or the first reader of its state, is placed there. A result lives from the beginning of its op,
/// a copy from the moment at which its tensor is made and the engine free: that is in the past if its reader
/// is placed late, and the past must have room for it too. When the last reader has been placed it is known
/// when they end: the result with its last local reader or outgoing copy, each copy with its last reader
/// there. Where units know what they will hold (PlacingUnits::live_bytes), a device takes one only if it can
/// hold all that it has taken at every moment to come. Thread: one.
class PartialSchedule {
 public:
  PartialSchedule(const ListTask& task, const PlacingUnits& units, const ListLimits& limits);

  const ListTask& task() const { return task_; }
  const PlacingUnits& units() const { return units_; }
  const ListLimits& limits() const { return limits_; }

  /// The devices that are open to the op: its unit's if that has one, else the allowed ones of
  /// `limits().devices`, else of `refuge`, else any allowed one.
  void candidates(OpId op, std::vector<std::uint32_t>& out) const;
  /// The unit's device if it has one, else -1.
  std::int32_t device_of(std::uint32_t unit) const { return device_of_unit_[unit]; }
  bool is_placed(OpId op) const { return end_ns_[index(op)] >= 0; }
  /// When everything that the op reads is on the device, if its copies were ordered now [ns].
  std::int64_t data_ready_ns(OpId op, std::size_t device) const;
  /// When the device has ended what was placed on it [ns].
  std::int64_t free_ns(std::size_t device) const { return free_ns_[device]; }
  std::int64_t end_ns(OpId op) const { return end_ns_[index(op)]; }

  /// Bytes over the limits if the op began there at `start_ns`; <= 0: it fits. Without the reserve and the
  /// slack: over the device's memory. What was given back by then is forgotten, so ask in order of time.
  std::int64_t bytes_over(OpId op, std::size_t device, std::int64_t start_ns, bool with_reserve = true);
  /// For what no candidate has room for: a refuge with room; without refuges the candidate with memory left,
  /// reserve included, where its data is first; else the one that it overflows least. Notes that memory
  /// decided.
  std::size_t refuge_for(OpId op, const std::vector<std::uint32_t>& candidates);
  /// Memory had a say: a candidate was refused.
  bool was_tight() const { return tight_; }
  void note_refusal() { tight_ = true; }

  /// Orders the copies that the op needs there; returns when the last one arrives (or its data is made) [ns].
  /// State that has no device yet comes along. @pre every op that it reads from is placed.
  std::int64_t order_copies(OpId op, std::size_t device);
  /// After order_copies: the op begins at `start_ns`, takes its memory and gives back what it read for the
  /// last time.
  void place(OpId op, std::size_t device, std::int64_t start_ns);

  /// Every op's device: state that nobody read goes where most memory is left, views to what they view.
  Placement placement() &&;

 private:
  void use(BufferId buffer, std::size_t device, std::int64_t until_ns) {
    std::int64_t& last = last_use_ns_[index(buffer) * num_devices_ + device];
    last = std::max(last, until_ns);
  }
  void settle(std::uint32_t unit, std::size_t device);
  std::int64_t* arrival(BufferId buffer) { return &arrival_ns_[index(buffer) * num_devices_]; }
  const std::int64_t* arrival(BufferId buffer) const { return &arrival_ns_[index(buffer) * num_devices_]; }
  /// Where the buffer is; the reader's device for state that has none yet.
  std::size_t home(BufferId buffer, std::size_t reader_device) const;

  const ListTask& task_;
  const PlacingUnits& units_;
  const ListLimits& limits_;
  const std::size_t num_devices_;
  bool tight_ = false;
  std::vector<std::int32_t> device_of_unit_;
  std::vector<std::int64_t> end_ns_;         // [ops] -1: not placed
  std::vector<std::int64_t> arrival_ns_;     // [buffers, devices] of a copy; -1: none
  std::vector<std::int64_t> last_use_ns_;    // [buffers, devices] so far
  std::vector<std::uint32_t> readers_left_;  // [buffers]
  std::vector<std::uint32_t> references_;    // [buffers] of whole tensors: readers of its parts too
  std::vector<std::int64_t> free_ns_;        // [devices]
  std::vector<IdleGaps> engines_;            // [devices] outgoing copies
  MemoryHistory memory_;
  std::vector<std::int64_t> state_used_;                 // [devices]
  std::vector<std::int64_t> limit_bytes_, state_limit_;  // [devices]
  std::vector<std::int64_t> committed_;  // [devices, moments] live bytes of the units that a device has taken
  std::vector<std::uint32_t> touched_;   // Units, while bytes are counted.
};

/// Fills a schedule: what makes one list scheduler differ from another.
using Lister = std::function<void(PartialSchedule&)>;

/// Runs `lister` over classes, over scopes (a layer's backward ops then follow its forward ops) and over
/// scopes of all time steps together, with and without the CPU, and, as long as memory decides, over reserves
/// of 0, 5, 10, 20, 30 and 40 % with ever less slack in the balance of state (on large problems 0, 10 and 30
/// %); offers every schedule. Errors: the executor's.
Result<Found> best_over_reserves(const ListTask& task, Executor& executor, const Lister& lister);

}  // namespace emplace
