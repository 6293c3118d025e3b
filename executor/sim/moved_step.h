#pragma once
/// A step of a placement that differs in a few ops from one that is remembered: only what the difference
/// changes is simulated.

#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/simulated_step.h"
#include "executor/sim/step_history.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// It leaves the history before the first event that a moved op changes. When it stands at a mark as the
/// history does there (the same ops started, ready and running, the same copies queued, all with the same
/// time to go), it goes on like it until the next event that a moved op changes, earlier or later by a
/// constant, its levels of memory higher or lower by a constant per device; so it jumps there. The events
/// that a moved op changes: the ends of it, of what it reads, of copies of that, of its readers, and of those
/// who read the same on a device where it was or is. Counts are not copied on a jump: each is worked out from
/// the history when it is first used (docs/reference/measurement.md says what they are). The result is that
/// of a whole step, bit for bit. Thread: one.
class MovedStep final : public StepLoop<MovedStep> {
 public:
  MovedStep(const StepTables& tables, Dispatch dispatch);
  /// `moved`: the ops at which `placement` differs from the history's. Afterwards the lanes hold peaks and
  /// busy times. Returns how many rounds were simulated.
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
  struct Count {
    std::uint32_t epoch, value;
  };
  /// A buffer that moved ops read, and where they stood or stand.
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
  void begin();
  bool stands_as_at(std::size_t mark) const;
  void stand_at(std::size_t mark);
  /// From one mark at which it stands as the history to another or, if that is the last interval, to the end.
  bool jump(std::size_t from, std::size_t to);
  void forget_counts();
  bool is_there(std::uint32_t buffer, std::uint32_t device) const;
  std::uint32_t count_waits(std::uint32_t op) const;
  std::uint32_t count_references(std::uint32_t base) const;
  std::uint32_t count_copy_references(std::uint32_t buffer, std::uint32_t target) const;

  const StepHistory* history_ = nullptr;
  std::size_t mark_ = 0;  // What counts are worked out from.
  std::uint32_t epoch_ = 0;
  std::vector<Count> waits_, references_, copy_references_;  // [ops], [buffers], [buffers, devices]
  bool other_start_ = false;                                 // The step does not begin as the history.
  std::vector<std::uint64_t> touched_;                       // [intervals] bits
  std::vector<Shared> shared_;
  std::vector<std::uint32_t> shared_at_;  // [buffers] its place in shared_ plus 1, or 0
  std::uint64_t hash_ = 0, rounds_ = 0;
  std::uint32_t last_started_ = 0;
};

}  // namespace emplace::simulated
