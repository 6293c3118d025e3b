#pragma once
/// The time of a simulated step without its memory, and only up to a limit: what a search needs to know of a
/// move that it refuses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/shared/link_queues.h"
#include "executor/sim/shared/ready_bits.h"
#include "executor/sim/shared/step_tables.h"
#include "executor/sim/timed/timed_intervals.h"
#include "executor/sim/timed/timed_memory.h"
#include "executor/sim/timed/timed_record.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// Simulates the same events as WholeStep, in program dispatch. It ends as soon as the work left on a device
/// cannot end before the limit. Memory is accounted for only if it is asked for.
///
/// A step that ended within its limit may become the recorded step: the one of which the next placement is
/// the smaller change, so that it follows what a walk accepts. Of a placement that differs from the recorded
/// one in some ops only the difference is simulated: from the mark before the first touched interval
/// (TimedRecord) on, and whenever the state equals that of a recorded mark, again from the mark before the
/// next one. The result is that of the whole step, to the bit. Thread: one.
class TimedStep {
 public:
  static constexpr std::size_t kMostDevices = 32;
  /// Whether it can simulate steps on these tables: one copy engine per device, at the source, no shared
  /// links, ops in the order of their ids, and no more of anything than its sets and counters hold.
  static bool supports(const StepTables& tables);
  /// Rounds between two marks: one costs about as much as six rounds.
  static constexpr std::uint32_t kRoundsPerMark = 32;
  /// @pre supports(tables), now and at each run(); rounds_per_mark > 0.
  explicit TimedStep(const StepTables& tables, std::uint32_t rounds_per_mark = kRoundsPerMark);
  TimedStep(const TimedStep&) = delete;
  TimedStep& operator=(const TimedStep&) = delete;

  /// Returns false if the step takes longer than the limit.
  bool run(std::span<const DeviceId> placement, std::int64_t limit_ns);
  /// Time of the step. @pre the last run() returned true; likewise below.
  std::int64_t end_ns() const { return now_ns_; }
  /// Bytes of the step's peaks over the devices' memory.
  std::int64_t bytes_over();
  /// Time at which the last run() ended, whatever it returned. For tests: a limit ends it early.
  std::int64_t simulated_ns() const { return now_ns_; }
  /// Rounds simulated so far.
  std::uint64_t rounds() const { return rounds_; }
  /// Steps whose memory was accounted for as a whole. For tests: most are accounted for by their changes.
  std::uint64_t whole_memories() const { return memory_.whole_steps(); }

 private:
  using What = TimedEvent::What;
  struct Lane {
    std::uint32_t op = 0;
    TimedCopy copy{};
    std::int64_t left_ns = 0;  // Time of the ops that have not started.
    Queue<TimedCopy> copies;
    ReadyBits ready;
    explicit Lane(std::size_t ids) : ready{ids} {}
  };

  void find_changes(std::span<const DeviceId> placement);
  void settle();
  void adopt();
  void drop();
  void record_again();
  void add(std::uint32_t op, int sign);
  bool simulate(bool joins, std::int64_t limit_ns);

  void start();
  void list_start_copies();
  std::uint32_t first_change_of_copies();
  void resume(std::uint32_t rank);
  void append_changed(std::vector<TimedCopy>& to, std::size_t d, TimedCopy running,
                      std::span<const TimedCopy> waiting) const;
  void change_copies(std::uint32_t interval);
  void change_marks();
  void make_room();
  void open_interval(std::uint32_t last_op);
  void open_interval_like(std::uint32_t interval);
  void close_interval();
  void skip(std::uint32_t from, std::uint32_t to);
  void restore(std::uint32_t interval);
  bool matches(std::uint32_t interval) const;
  bool rejoin(std::uint32_t interval);
  std::int64_t left(std::int64_t end) const { return end == kIdle ? kIdle : end - now_ns_; }

  void start_waits(std::vector<std::uint16_t>& waits) const;
  bool run_rounds();
  bool start_op(std::uint32_t d);
  void start_copy(std::uint32_t d);
  void finish_op(std::uint32_t d);
  void finish_copy(std::uint32_t d);
  void queue_copy(std::uint32_t source, TimedCopy copy) {
    lanes_[source].copies.push(copy);
    awake_ |= 1u << source;
  }
  void make_ready(std::uint32_t op, std::uint32_t d) {
    lanes_[d].ready.insert(op);
    awake_ |= 1u << d;
    hash_ += hash_of_ready(op, d);
  }
  void satisfy(std::uint32_t op, std::uint32_t d) {
    log_.satisfied[size_.satisfied++] = op;
    if (--waits_[op] == 0) make_ready(op, d);
  }
  void log(What what, std::uint32_t device, std::uint32_t id) {
    log_.events[size_.events++] = {id, static_cast<std::uint16_t>(device), what};
  }
  /// 64 bits per fact, added up: two states differ and have one sum with a probability of 2^-64.
  static std::uint64_t hash_of_started(std::uint32_t op) {
    std::uint64_t x = (std::uint64_t{op} + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9ull;
    return x ^ (x >> 29);
  }
  static std::uint64_t hash_of_ready(std::uint32_t op, std::uint32_t d) {
    return hash_of_started(op) * (2 * d + 3);
  }
  std::uint32_t device_of(std::uint32_t op) const { return static_cast<std::uint32_t>(index(place_[op])); }

  const StepTables& tables_;
  const std::uint32_t rounds_per_mark_;
  std::vector<std::uint32_t> first_owned_;             // [ops + 1]
  std::vector<std::uint32_t> first_reader_;            // [buffers + 1]
  std::vector<std::uint16_t> waits_at_start_, waits_;  // [ops]
  std::vector<std::uint32_t> requested_;               // [buffers] Devices to which state is copied.
  std::vector<std::int64_t> ends_;                     // [devices, 2] End of the running op and copy.
  std::vector<Lane> lanes_;                            // [devices]
  std::uint32_t awake_ = 0;                            // Devices that may be able to start an op or a copy.
  std::int64_t now_ns_ = 0, limit_ns_ = 0;
  std::uint64_t hash_ = 0, rounds_ = 0;

  std::vector<DeviceId> place_;                         // [ops] Of the last run.
  std::vector<std::int64_t> work_ns_, resident_bytes_;  // [devices] Sums over the ops on a device.
  std::vector<std::uint32_t> changed_, moved_;          // Ops that differ from the last run, the record.

  TimedIntervals log_;
  TimedIntervals::Size size_, recorded_size_;  // Used part of log_; without the last run's intervals.
  TimedRecord record_;
  std::vector<std::uint16_t> recorded_waits_;  // [ops] Waits of the recorded step at the mark of this rank:
  std::uint32_t waits_rank_ = 0;
  std::vector<std::vector<TimedCopy>> recorded_start_copies_;  // [devices] Copies of state, as queued.
  TimedMemory memory_;

  // The last run.
  std::vector<std::uint32_t> order_;  // Its intervals, recorded ones and its own.
  std::uint32_t open_ = 0, rounds_to_mark_ = 0;
  std::int64_t opened_ns_ = 0;  // Time of the mark of the open interval.
  /// An op that waits for more or fewer copies of state than in the recorded step.
  struct WaitChange {
    std::uint32_t op;
    int more;
  };
  std::vector<WaitChange> wait_changes_;
  std::vector<std::vector<TimedCopy>> start_copies_;  // [devices]
  bool lists_start_ = false;          // start_copies_ are its copies; otherwise it has those of the record.
  bool joins_ = false;                // It may share intervals with the recorded step.
  bool from_start_ = false;           // It shares none at the start.
  bool done_ = false;                 // It ended within the limit, and is not recorded.
  bool memory_known_ = false;         // bytes_over() was called.
  std::uint32_t events_of_step_ = 0;  // Events of the last one that shared nothing.
};

}  // namespace emplace::simulated
