#pragma once
/// Scheduler queue: which executor gets work next.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "messages/envelope.h"

namespace emplace::runtime {

/// Orders executors by the time at which one more item would be done, at their measured rate:
///   free_at = now + items held · s,   s: moving average of seconds per item
/// Idle executors come before busy ones. An executor holds up to two leases (one running, one queued), and
/// more only while its work takes less than `horizon`, so that a slow one does not hoard. An unmeasured one
/// holds at most two. Every call but ask_all() is O(log n). Pure; one thread.
class Roster {
 public:
  using Id = messages::ActorId;

  explicit Roster(Nanos horizon) : horizon_{horizon} {}

  void join(Id id);
  void leave(Id id);
  /// Records a lease of `items` given to the executor.
  void give(Id id, std::int64_t items, Nanos now);
  /// Records that a lease ended, done or not. Clears pass().
  void finish(Id id, std::int64_t items, Nanos now);
  /// Adds a measurement to the moving average.
  void measured(Id id, double seconds_per_item);

  /// Executor to ask for the next lease; empty if all eligible ones hold enough.
  std::optional<Id> next() const {
    return next([](Id) { return true; });
  }
  /// Same, limited to executors for which may(Id) is true.
  template <class May>
  std::optional<Id> next(May&& may) const {
    for (const Key& key : order_)
      if (may(std::get<Id>(key))) return std::get<Id>(key);
    return std::nullopt;
  }
  /// Whether the executor holds no lease.
  bool idle(Id id) const;
  /// Skips the executor until its state changes: it cannot take the work on offer.
  void pass(Id id);
  /// Clears pass() for one executor.
  void ask(Id id);
  /// Clears pass() for all: the state or the work on offer changed. O(n log n).
  void ask_all();

 private:
  /// Sort key: idle before busy, then completion time of one more item, then turn.
  using Key = std::tuple<bool, std::int64_t, std::uint64_t, Id>;
  struct Entry {
    std::int64_t leases = 0, items = 0;
    double seconds_per_item = 0;
    bool measured = false, passed = false;
    Nanos free_at{0};
    std::uint64_t turn = 0;  // Turn of its last lease or join; on a tie the lowest goes first.
    std::optional<Key> key;  // Its entry in order_; empty: not eligible.
  };
  template <class Change>
  void change(Id id, Change&& change);
  void stand(Id id, Entry& entry);
  static Nanos takes(const Entry& entry, std::int64_t items);

  const Nanos horizon_;
  std::map<Id, Entry> entries_;
  std::set<Key> order_;  // Keys of the eligible executors.
  std::uint64_t turn_ = 0;
};

}  // namespace emplace::runtime
