#pragma once
/// The time of a simulated step without its memory, and only up to a limit: what a search needs to know of a
/// move that it refuses.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/link_queues.h"
#include "executor/sim/step_tables.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// Ready ops of a lane, lowest id first: a bit set with two summary levels, for at most kMost ids.
class ReadyBits {
 public:
  static constexpr std::size_t kMost = std::size_t{64} * 64 * 64;
  explicit ReadyBits(std::size_t ids) : ops_(ids / 64 + 1, 0), words_(ids / 4096 + 1, 0) {}

  bool empty() const { return top_ == 0; }
  void insert(std::uint32_t id) {
    ops_[id >> 6] |= bit(id);
    words_[id >> 12] |= bit(id >> 6);
    top_ |= bit(id >> 12);
  }
  /// @pre !empty().
  std::uint32_t pop_min() {
    const auto upper = static_cast<std::uint32_t>(std::countr_zero(top_));
    std::uint64_t& word = words_[upper];
    const std::uint32_t middle = upper << 6 | static_cast<std::uint32_t>(std::countr_zero(word));
    std::uint64_t& ops = ops_[middle];
    const std::uint32_t id = middle << 6 | static_cast<std::uint32_t>(std::countr_zero(ops));
    ops &= ops - 1;
    if (ops != 0) return id;
    word &= word - 1;
    if (word == 0) top_ &= top_ - 1;
    return id;
  }
  void clear() {
    while (top_ != 0) pop_min();
  }

 private:
  static constexpr std::uint64_t bit(std::uint32_t id) { return std::uint64_t{1} << (id & 63); }

  std::vector<std::uint64_t> ops_, words_;
  std::uint64_t top_ = 0;
};

/// Simulates the same events as WholeStep, in program dispatch, in half of its time. It ends as soon as the
/// work left on a device cannot end before the limit. Memory is accounted for afterwards, from a log of the
/// events, and only if it is asked for. Thread: one.
class TimedStep {
 public:
  static constexpr std::size_t kMostDevices = 32;
  /// Whether it can simulate steps on these tables: one copy engine per device, at the source, no shared
  /// links, ops in the order of their ids, and no more of anything than its sets and counters hold.
  static bool supports(const StepTables& tables);
  /// @pre supports(tables), now and at each run().
  explicit TimedStep(const StepTables& tables);

  /// Returns false if the step takes longer than the limit.
  bool run(std::span<const DeviceId> placement, std::int64_t limit_ns);
  /// Time of the step. @pre the last run() returned true; likewise below.
  std::int64_t end_ns() const { return now_ns_; }
  /// Time at which the last run() ended, whatever it returned.
  std::int64_t simulated_ns() const { return now_ns_; }
  /// Bytes of the step's peaks over the devices' memory.
  std::int64_t bytes_over();

 private:
  struct Copy {
    std::uint32_t buffer, target;
  };
  struct Lane {
    std::uint32_t op = 0;
    Copy copy{};
    std::int64_t free_since_ns = 0;
    std::int64_t idle_left_ns = 0;  // Idle time that the limit leaves.
    Queue<Copy> copies;
    ReadyBits ready;
    explicit Lane(std::size_t ids) : ready{ids} {}
  };
  /// What the ops on a device amount to, whenever they run.
  struct Sum {
    std::int64_t work_ns = 0, resident_bytes = 0;
  };
  enum class What : std::uint32_t { kOpStart, kOpEnd, kCopyStart, kCopyEnd };
  struct Event {
    What what;
    std::uint32_t device;  // The op's device or the copy's target.
    std::uint32_t id;      // Op or buffer.
  };
  /// Bytes allocated on a device.
  struct Level {
    std::int64_t bytes, peak;
    void take(std::int64_t more) {
      bytes += more;
      peak = std::max(peak, bytes);
    }
  };

  void place(std::span<const DeviceId> placement);
  void add(std::uint32_t op, int sign);
  void start();
  bool run_rounds();
  bool start_op(std::uint32_t d);
  void start_copy(std::uint32_t d);
  void finish_op(std::uint32_t d);
  void finish_copy(std::uint32_t d);
  void queue_copy(std::uint32_t source, Copy copy) {
    lanes_[source].copies.push(copy);
    awake_ |= 1u << source;
  }
  void satisfy(std::uint32_t op, std::uint32_t d) {
    if (--waits_[op] != 0) return;
    lanes_[d].ready.insert(op);
    awake_ |= 1u << d;
  }
  void log(What what, std::uint32_t device, std::uint32_t id) { events_[num_events_++] = {what, device, id}; }
  void hold_outputs(std::uint32_t op, std::uint32_t d);
  void release_inputs(std::uint32_t op, std::uint32_t d);
  void drop_reference(std::uint32_t buffer);
  std::uint32_t& copy_references(std::uint32_t buffer, std::uint32_t target) {
    return copy_references_[buffer * lanes_.size() + target];
  }
  std::uint32_t device_of(std::uint32_t op) const { return static_cast<std::uint32_t>(index(place_[op])); }

  const StepTables& tables_;
  std::vector<std::uint32_t> first_owned_;             // [ops + 1]
  std::vector<std::uint32_t> first_reader_;            // [buffers + 1]
  std::vector<DeviceId> place_;                        // [ops]
  std::vector<std::uint16_t> waits_at_start_, waits_;  // [ops]
  std::vector<std::uint32_t> requested_;               // [buffers] Devices to which state is copied.
  std::vector<std::int64_t> ends_;                     // [devices, 2] End of the running op and copy.
  std::vector<Lane> lanes_;                            // [devices]
  std::vector<Sum> sums_;                              // [devices]
  std::uint32_t awake_ = 0;                            // Devices that may be able to start an op or a copy.
  std::int64_t now_ns_ = 0;
  std::vector<Event> events_;  // The first num_events_ are those of the step.
  std::size_t num_events_ = 0;
  // Used by bytes_over(); all zero outside of it.
  std::vector<std::uint32_t> references_;       // [buffers]
  std::vector<std::uint32_t> copy_references_;  // [buffers, devices]
  std::vector<Level> levels_;                   // [devices]
};

}  // namespace emplace::simulated
