#pragma once
/// A recorded step: the end of every event, and marks at which another step can join or leave it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "executor/sim/whole/simulated_step.h"

namespace emplace::simulated {

/// Time is divided into intervals by marks: an event that ended in interval i ended after mark i - 1 and
/// before mark i. Mark 0 is the start, before any op has started; every other mark follows a round in which
/// an op started. Thread: one writer, then any.
struct StepHistory {
  struct Mark {
    std::int64_t now_ns, bytes_moved;
    std::uint64_t hash;     ///< Hash of the started ops and of the ready ops with their devices.
    std::uint32_t ready;    ///< Index of its first entry in `ready`.
    std::uint32_t waiting;  ///< Index of its first entry in `waiting`.
  };
  struct LaneMark {
    /// Remaining time of the running op and copy; kIdle: none; kWaiting: the copy waits for a shared link.
    std::int64_t op_left_ns, copy_left_ns;
    std::int64_t used_bytes, peak_bytes;  ///< The peak is that since the last mark.
    std::uint32_t op;
    Copy copy;
    std::uint32_t ready;                  ///< Number of ready ops.
    std::uint32_t first_copy, last_copy;  ///< Range [first, last) of `queued` that waits to be copied.
  };

  std::vector<DeviceId> placement;        ///< [ops] Empty: no step is recorded.
  std::vector<Mark> marks;                ///< Sorted by time.
  std::vector<LaneMark> lanes;            ///< [marks, devices]
  std::vector<std::uint32_t> ready;       ///< Ready ops by mark and lane.
  std::vector<std::uint32_t> waiting;     ///< Queues of the shared links by mark (LinkQueues::append_to).
  std::vector<std::vector<Copy>> queued;  ///< [devices] All copies ever queued.
  std::span<const Copy> copies(const LaneMark& lane, std::size_t device) const {
    return {queued[device].data() + lane.first_copy, queued[device].data() + lane.last_copy};
  }
  std::span<const std::uint32_t> waiting_at(std::size_t mark) const {
    const std::size_t end = mark + 1 < marks.size() ? marks[mark + 1].waiting : waiting.size();
    return std::span{waiting}.subspan(marks[mark].waiting, end - marks[mark].waiting);
  }
  std::vector<std::uint32_t> op_end;    ///< [ops] Interval in which a kernel ended.
  std::vector<std::uint32_t> copy_end;  ///< [buffers, devices] Interval in which a copy ended; 0: no copy.
  /// [ops] Mark of the round in which the op was the last to start; 0: none.
  std::vector<std::uint32_t> mark_of_op;
  std::vector<std::int64_t> peak_until;      ///< [marks, devices] Peak from the start to the mark.
  std::vector<std::int64_t> peak_from;       ///< [marks, devices] Peak from the mark to the end.
  std::int64_t end_ns = 0, bytes_moved = 0;  ///< Totals of the step.
  std::vector<std::int64_t> busy_ns;         ///< [devices]
  std::uint64_t rounds = 0;
};

/// Time until `end`; kIdle and kWaiting stay what they are.
constexpr std::int64_t time_left(std::int64_t end, std::int64_t now_ns) {
  return end >= kWaiting ? end : end - now_ns;
}
constexpr std::int64_t end_after(std::int64_t left_ns, std::int64_t now_ns) {
  return left_ns >= kWaiting ? left_ns : now_ns + left_ns;
}

/// 64-bit hash per fact, combined by exclusive-or: different sets collide with a probability of 2^-64.
inline std::uint64_t hash_of_ready(std::uint32_t op, std::uint32_t device) {
  return splitmix64(std::uint64_t{op} << 10 | device);
}
inline std::uint64_t hash_of_started(std::uint32_t op) { return splitmix64(std::uint64_t{op} << 10 | 1023); }

/// Simulates a whole step and records it. Costs about a third more than without recording.
class RecordedStep final : public WholeStep<RecordedStep> {
 public:
  RecordedStep(const StepTables& tables, Dispatch dispatch) : WholeStep{tables, dispatch} {}
  void run(std::span<const DeviceId> placement, StepHistory& history);

 private:
  friend class StepLoop<RecordedStep>;
  void op_ready(std::uint32_t op, std::uint32_t d) { hash_ ^= hash_of_ready(op, d); }
  void op_started(std::uint32_t d) {
    last_started_ = lanes_[d].op;
    hash_ ^= hash_of_ready(last_started_, d) ^ hash_of_started(last_started_);
  }
  void op_ended(std::uint32_t op) { history_->op_end[op] = interval_; }
  void copy_queued(std::uint32_t source, const Copy& copy) { history_->queued[source].push_back(copy); }
  void copy_started(std::uint32_t) {}
  void copy_ended(const Copy& copy) {
    history_->copy_end[copy.buffer * lanes_.size() + copy.target] = interval_;
  }
  bool round_started();
  void take_mark();

  StepHistory* history_ = nullptr;
  std::uint64_t hash_ = 0;
  std::uint32_t interval_ = 0, last_started_ = 0;
  std::size_t rounds_to_mark_ = 0;
};

}  // namespace emplace::simulated
