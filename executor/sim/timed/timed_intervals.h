#pragma once
/// Intervals of timed steps, which several steps share.

#include <cstdint>
#include <span>
#include <vector>

namespace emplace::simulated {

/// A transfer: one buffer to one device.
struct TimedCopy {
  std::uint32_t buffer, target;
  bool operator==(const TimedCopy&) const = default;
};

struct TimedEvent {
  enum class What : std::uint16_t { kOpStart, kOpEnd, kCopyStart, kCopyEnd };
  std::uint32_t id;      ///< Op or buffer.
  std::uint16_t device;  ///< The op's device or the copy's target.
  What what;
};

/// Intervals by number. An interval starts at a mark: the state after everything that could start in a round
/// has started, or the start of a step. It ends at the next mark of its step, or with the step. Times are
/// relative, so that steps that pass a mark at different times share the interval. Thread: one writer, then
/// any.
struct TimedIntervals {
  struct Interval {
    std::uint64_t hash;         ///< The ops that have started, and the ready ops with their devices.
    std::int64_t duration_ns;   ///< Time to the next mark, or to the end.
    std::uint32_t last_op;      ///< The last op started before the mark; kNoIndex: none.
    std::uint32_t like;         ///< An earlier interval with the same mark; kNoIndex: none.
    std::uint32_t first_ready;  ///< Ready ops at the mark: index in `ready`, lane after lane.
    std::uint32_t first_copy;   ///< Copies that wait at the mark: index in `copies`, lane after lane.
    std::uint32_t first_event, end_event;          ///< Range of `events`.
    std::uint32_t first_satisfied, end_satisfied;  ///< Range of `satisfied`.
  };
  struct LaneMark {
    std::int64_t op_left_ns, copy_left_ns;  ///< Remaining time of the running op and copy; kIdle: none.
    std::int64_t started_ns;                ///< Time of the ops that start in the interval.
    std::uint32_t op;
    TimedCopy copy;
    std::uint32_t ready, copies;  ///< Numbers of ready ops and waiting copies.
  };
  /// Used parts of the lists.
  struct Size {
    std::uint32_t intervals = 0, ready = 0, copies = 0, events = 0, satisfied = 0;
  };

  std::span<const TimedEvent> events_of(std::uint32_t interval) const {
    const Interval& i = intervals[interval];
    return {events.data() + i.first_event, events.data() + i.end_event};
  }
  std::span<const std::uint32_t> satisfied_of(std::uint32_t interval) const {
    const Interval& i = intervals[interval];
    return {satisfied.data() + i.first_satisfied, satisfied.data() + i.end_satisfied};
  }

  std::vector<Interval> intervals;
  std::vector<LaneMark> lanes;  ///< [intervals, devices]
  std::vector<std::uint32_t> ready;
  std::vector<TimedCopy> copies;
  std::vector<TimedEvent> events;        ///< Longer than its used part.
  std::vector<std::uint32_t> satisfied;  ///< Ops of which an input became available; longer, too.
};

}  // namespace emplace::simulated
