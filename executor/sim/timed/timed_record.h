#pragma once
/// The step that timed steps are compared with: which interval an event ended in, and what a move affects.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/shared/step_tables.h"
#include "executor/sim/timed/timed_intervals.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// A recorded step as a sequence of intervals. Positions in the sequence are ranks.
///
/// Touched intervals of a move contain an event that changes what a moved op waits for, in the recorded step
/// or in the new one: the end of the producer of an input, or of a copy of an input to the op's device before
/// or now. A moved op that is neither ready nor running at the mark of an untouched interval does not become
/// so within it. Thread: one.
class TimedRecord {
 public:
  TimedRecord(const StepTables& tables, const TimedIntervals& intervals);

  bool empty() const { return place_.empty(); }
  std::span<const DeviceId> place() const { return place_; }
  std::span<const std::uint32_t> order() const { return order_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(order_.size()); }
  std::uint32_t rank(std::uint32_t interval) const { return rank_[interval]; }
  /// Whether an interval's mark follows a round in which this op was the last to start.
  bool has_mark(std::uint32_t last_op) const { return (is_mark_[last_op >> 6] >> (last_op & 63) & 1) != 0; }
  /// @pre has_mark(last_op).
  std::uint32_t mark(std::uint32_t last_op) const { return mark_of_op_[last_op]; }

  /// Replaces the sequence. Those from number `first_new` on are new. `order` gets the old sequence.
  void adopt(std::span<const DeviceId> place, std::vector<std::uint32_t>& order, std::uint32_t first_new);
  void forget();

  /// What moves change of the start of a step.
  enum class Start : std::uint8_t { kNothing, kCopies, kReadyOps };
  /// Touches the intervals that the moves from the recorded placement to `place` affect.
  Start touch(std::span<const std::uint32_t> moved, std::span<const DeviceId> place);
  /// Ranks in which an op and a copy end. @pre they do.
  std::uint32_t end_of_op(std::uint32_t op) const { return rank_[end_of_op_[op]]; }
  std::uint32_t end_of_copy(TimedCopy copy) const {
    return rank_[end_of_copy_[copy.buffer * tables_.num_devices() + copy.target]];
  }
  /// The first touched rank from `rank` on; size() if there is none.
  std::uint32_t next_touched(std::uint32_t rank) const;

 private:
  void enter(std::uint32_t interval, bool added);
  Start touch_around(std::uint32_t op, std::span<const DeviceId> place);
  void touch_interval(std::uint32_t interval) {
    const std::uint32_t rank = rank_[interval];
    touched_[rank >> 6] |= std::uint64_t{1} << (rank & 63);
  }

  const StepTables& tables_;
  const TimedIntervals& intervals_;
  std::vector<DeviceId> place_;           // [ops] Empty: no step is recorded.
  std::vector<std::uint32_t> order_;      // Its intervals.
  std::vector<std::uint32_t> rank_;       // [intervals] Position in order_; only of those that are in it.
  std::vector<std::uint32_t> end_of_op_;  // [ops] Interval in which it ends.
  std::vector<std::uint32_t>
      end_of_copy_;                        // [buffers, devices] Interval in which it ends; kNoIndex: no copy.
  std::vector<std::uint32_t> mark_of_op_;  // [ops] Interval whose last_op it is.
  std::vector<std::uint64_t> is_mark_;     // [ops] Bits: mark_of_op_ is set.
  std::vector<std::uint64_t> touched_;     // [ranks] Bits.
  std::vector<bool> kept_;                 // [intervals] Those in the next sequence, while it is adopted.
};

}  // namespace emplace::simulated
