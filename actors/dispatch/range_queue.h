#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "actors/dispatch/range.h"
#include "messages/envelope.h"
#include "runtime/core/credit.h"

namespace emplace::actors {

/// Unfinished ranges, and the order in which those without an open lease get one: first ranges whose leases
/// are all overdue, then ranges that an executor has failed, then all others; each in the order of queueing.
/// Invariants:
///
/// - A range is queued at most once.
/// - A range that was added, or whose last lease has ended, is queued until offer() has given it away or
///   done() has finished it. So no range is lost while the caller reports the end of every lease.
///
/// Pure. Owner loop only.
class RangeQueue {
 public:
  /// Queues a new range. @pre Its number was never added.
  void add(const Range& range);
  /// Records that a lease of an unfinished range ended without a result. `open`: other leases of it that are
  /// open; if none is, queues the range.
  void ended(std::uint64_t range, messages::ActorId holder, std::size_t open);
  /// Records that an executor failed an unfinished range.
  void failed(std::uint64_t range) { ranges_.at(range).failed = true; }
  /// Queues a range whose leases are all overdue; no effect on a finished range.
  void overdue(std::uint64_t range);
  /// Forgets a range that has its result.
  void done(std::uint64_t range);

  /// Calls give(number) for queued ranges, in order, and removes those for which it returns true. Stops at
  /// the first range of the last queue that is not given away. Failed and overdue ranges are few, and an
  /// executor that may not take one may take a later one, so all of them are offered. `give` may call
  /// ended() for the range that it is called for, and nothing else.
  template <class Give>
  void offer(Give&& give) {
    const auto leaves = [&](std::uint64_t number) {
      const auto found = ranges_.find(number);
      if (found == ranges_.end()) return true;  // Finished by another attempt.
      if (!give(number)) return false;
      found->second.queued = false;
      return true;
    };
    std::erase_if(overdue_, leaves);
    std::erase_if(failed_, leaves);
    while (!waiting_.empty() && leaves(waiting_.front())) waiting_.pop_front();
  }

  /// Credit that a lease of an unfinished range takes.
  runtime::Credit size_of(std::uint64_t range) const { return ranges_.at(range).size; }
  /// The last executors whose lease of an unfinished range ended without a result, oldest first. The
  /// reference is valid until done().
  const std::vector<messages::ActorId>& tried_by(std::uint64_t range) const {
    return ranges_.at(range).tried_by;
  }
  /// True if no range waits that is neither failed nor overdue.
  bool none_waiting() const { return waiting_.empty(); }
  /// Number of unfinished ranges, and of their placements.
  std::size_t ranges() const { return ranges_.size(); }
  std::uint64_t placements() const { return placements_; }

 private:
  struct Unfinished {
    runtime::Credit size;
    bool failed = false;  ///< An executor has failed it.
    bool queued = false;
    std::vector<messages::ActorId> tried_by = {};
  };
  void enqueue(std::uint64_t range, Unfinished& unfinished, std::deque<std::uint64_t>& queue);

  std::unordered_map<std::uint64_t, Unfinished> ranges_;  ///< Keyed by number.
  std::uint64_t placements_ = 0;                          ///< Sum of size.items over ranges_.
  std::deque<std::uint64_t> overdue_;
  std::deque<std::uint64_t> failed_;
  std::deque<std::uint64_t> waiting_;
};

}  // namespace emplace::actors
