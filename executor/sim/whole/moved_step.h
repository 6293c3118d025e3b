#pragma once
/// Simulates a placement that differs in a few ops from a recorded step, and only the part that the
/// difference affects.

#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/whole/simulated_step.h"
#include "executor/sim/whole/step_history.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// Reuses a recorded step (StepHistory). The history is divided into intervals by its marks.
///
/// Touched intervals contain an event that a moved op affects: the end of the op itself, of the producers of
/// its inputs, of copies of these inputs, of its readers, and of other readers of the same buffers on a
/// device where the op was or is.
///
/// Invariant: outside the touched intervals the new step has the history's schedule, shifted in time by a
/// constant and in memory by a constant per device.
///
/// Algorithm: start at the last mark before the first touched interval and simulate. Whenever the state
/// equals the history's at a mark (the same ops started, ready and running, the same copies queued, with the
/// same remaining times), jump to the last mark before the next touched interval, or to the end.
///
/// A jump does not copy the counts of the step; each is computed from the history at its first use
/// (docs/reference/measurement.md defines them). The result is bit-identical to that of a whole step. Thread:
/// one.
class MovedStep final : public StepLoop<MovedStep> {
 public:
  MovedStep(const StepTables& tables, Dispatch dispatch);
  /// `moved`: the ops at which `placement` differs from the history's. Afterwards the lanes contain peaks and
  /// busy times. Returns the number of simulated rounds.
  std::uint64_t run(const StepHistory& history, std::span<const DeviceId> placement,
                    std::span<const std::uint32_t> moved);

  std::uint32_t& waits(std::uint32_t op) {
    Count& count = waits_[op];
    if (count.epoch != epoch_) count = {epoch_, count_waits(op)};
    return count.value;
  }
  std::uint32_t& references(std::uint32_t base) {
    Count& count = references_[base];
    if (count.epoch != epoch_) count = {epoch_, count_references(base)};
    return count.value;
  }
  std::uint32_t& copy_references(std::uint32_t buffer, std::uint32_t target) {
    Count& count = copy_references_[buffer * lanes_.size() + target];
    if (count.epoch != epoch_) count = {epoch_, count_copy_references(buffer, target)};
    return count.value;
  }

 private:
  friend class StepLoop<MovedStep>;
  /// A lazily computed count; valid if its epoch is the current one.
  struct Count {
    std::uint32_t epoch, value;
  };
  /// A buffer that moved ops read, with their previous and current devices.
  struct Shared {
    std::uint32_t buffer;
    DeviceMask devices;
  };

  void op_ready(std::uint32_t op, std::uint32_t d) { hash_ ^= hash_of_ready(op, d); }
  void op_started(std::uint32_t d) {
    last_started_ = lanes_[d].op;
    hash_ ^= hash_of_ready(last_started_, d) ^ hash_of_started(last_started_);
  }
  void op_ended(std::uint32_t) {}
  void copy_queued(std::uint32_t, const Copy&) {}
  void copy_started(std::uint32_t) {}
  void copy_ended(const Copy&) {}
  bool round_started();

  void touch(std::uint32_t interval) { touched_[interval >> 6] |= std::uint64_t{1} << (interval & 63); }
  void touch_copies(std::uint32_t buffer);
  void touch_around(std::uint32_t op);
  void touch_sharers(const Shared& shared);
  std::size_t next_touched(std::size_t after) const;
  std::uint32_t device_before(std::uint32_t op) const {
    return static_cast<std::uint32_t>(index(history_->placement[op]));
  }

  bool start();
  void start_from_scratch();
  bool matches_mark(std::size_t mark) const;
  void restore_mark(std::size_t mark);
  /// Skips from a mark that the state equals to another one, or to the end if that is the last interval.
  /// Returns true at the end.
  bool jump(std::size_t from, std::size_t to);
  void invalidate_counts();
  bool is_available(std::uint32_t buffer, std::uint32_t device) const;
  std::uint32_t count_waits(std::uint32_t op) const;
  std::uint32_t count_references(std::uint32_t base) const;
  std::uint32_t count_copy_references(std::uint32_t buffer, std::uint32_t target) const;

  const StepHistory* history_ = nullptr;
  std::size_t mark_ = 0;  // The mark from which counts are computed.
  std::uint32_t epoch_ = 0;
  std::vector<Count> waits_, references_, copy_references_;  // [ops], [buffers], [buffers, devices]
  bool start_differs_ = false;          // The start of the step differs from the history's.
  std::vector<std::uint64_t> touched_;  // [intervals] Bit set.
  std::vector<Shared> shared_;
  std::vector<std::uint32_t> shared_at_;  // [buffers] Index in shared_ plus 1, or 0.
  std::uint64_t hash_ = 0, rounds_ = 0;
  std::uint32_t last_started_ = 0;
};

}  // namespace emplace::simulated
