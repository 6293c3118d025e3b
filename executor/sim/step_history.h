#pragma once
/// A simulated step that is remembered: when everything ended, and marks along the way at which another step
/// may join it or leave it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "executor/sim/simulated_step.h"

namespace emplace::simulated {

/// Time is counted in marks: what ended in interval i ended after mark i - 1 and before mark i. Mark 0 is the
/// start, before anything has started; the others stand behind a round in which an op started. Thread: one
/// writer, then any.
struct StepHistory {
  struct Mark {
    std::int64_t now_ns, bytes_moved;
    std::uint64_t hash;   ///< Of the ops started so far and the ready ops with their devices.
    std::uint32_t ready;  ///< Where `ready` begins.
  };
  struct LaneMark {
    std::int64_t op_left_ns, copy_left_ns;  ///< Until the running one ends; kIdle: none runs.
    std::int64_t used_bytes, peak_bytes;    ///< The peak since the last mark.
    std::uint32_t op;
    Copy copy;
    std::uint32_t ready;                  ///< How many ops wait to run.
    std::uint32_t first_copy, last_copy;  ///< Of `queued`: what waits to be copied, the last excluded.
  };

  std::vector<DeviceId> placement;        ///< [ops]; empty: nothing is remembered.
  std::vector<Mark> marks;                ///< By time.
  std::vector<LaneMark> lanes;            ///< [marks, devices]
  std::vector<std::uint32_t> ready;       ///< Of each mark and lane.
  std::vector<std::vector<Copy>> queued;  ///< [devices] All that ever was.
  std::span<const Copy> copies(const LaneMark& lane, std::size_t device) const {
    return {queued[device].data() + lane.first_copy, queued[device].data() + lane.last_copy};
  }
  std::vector<std::uint32_t> op_end;    ///< [ops] interval in which a kernel ended
  std::vector<std::uint32_t> copy_end;  ///< [buffers, devices] the same of copies; 0: there was none.
  std::vector<std::uint32_t>
      mark_of_op;  ///< [ops] the mark of the round that it was the last to start in, or 0
  std::vector<std::int64_t> peak_until;      ///< [marks, devices] from the start
  std::vector<std::int64_t> peak_from;       ///< [marks, devices] to the end
  std::int64_t end_ns = 0, bytes_moved = 0;  ///< Of the whole step.
  std::vector<std::int64_t> busy_ns;         ///< [devices]
  std::uint64_t rounds = 0;
};

/// 64 bits per fact, combined by exclusive or: two sets of facts that differ are told apart but for one
/// chance in 2^64.
inline std::uint64_t hash_of_ready(std::uint32_t op, std::uint32_t device) {
  return splitmix64(std::uint64_t{op} << 10 | device);
}
inline std::uint64_t hash_of_started(std::uint32_t op) { return splitmix64(std::uint64_t{op} << 10 | 1023); }

/// Simulates a step from its start and remembers it. Costs about a third more than to forget it.
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
