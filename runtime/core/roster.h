#pragma once
/// Whom to give work next.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "messages/envelope.h"

namespace emplace::runtime {

/// Executors by when they would be done with one item more than they hold, at the rate they were measured at:
///   free at = now + items held · s,   s a moving average of seconds per item
/// An idle one comes before every busy one. Beyond two leases (one in work, one at hand) an executor may hold
/// work for `horizon`, so that a slow one does not hoard what a fast one could do; one that was never
/// measured holds two. Every call but ask_all() is O(log n). Pure; one thread.
class Roster {
 public:
  using Id = messages::ActorId;

  explicit Roster(Nanos horizon) : horizon_{horizon} {}

  void join(Id id);
  void leave(Id id);
  /// A lease of so many items went to it.
  void give(Id id, std::int64_t items, Nanos now);
  /// It is done with one, or will never do it. It may be asked again.
  void finish(Id id, std::int64_t items, Nanos now);
  /// It took so long for each item of a lease.
  void measured(Id id, double seconds_per_item);

  /// The one to ask for the next lease. None: all that may be asked hold enough.
  std::optional<Id> next() const {
    return next([](Id) { return true; });
  }
  /// Of those for whom may(Id) is true.
  template <class May>
  std::optional<Id> next(May&& may) const {
    for (const Key& key : order_)
      if (may(std::get<Id>(key))) return std::get<Id>(key);
    return std::nullopt;
  }
  /// True if it holds nothing.
  bool idle(Id id) const;
  /// It could not take what it was asked for: not named again before something of it changes.
  void pass(Id id);
  /// Something of it has changed.
  void ask(Id id);
  /// Perhaps something has changed, or smaller work waits. O(n log n).
  void ask_all();

 private:
  /// Idle before busy, then by the time one more item would be done, then by turn.
  using Key = std::tuple<bool, std::int64_t, std::uint64_t, Id>;
  struct Entry {
    std::int64_t leases = 0, items = 0;
    double seconds_per_item = 0;
    bool measured = false, passed = false;
    Nanos free_at{0};
    std::uint64_t turn = 0;  // Given something last: of equals the one that waited longest goes first.
    std::optional<Key> key;  // Where it stands; none: it is not to be asked.
  };
  template <class Change>
  void change(Id id, Change&& change);
  void stand(Id id, Entry& entry);
  static Nanos takes(const Entry& entry, std::int64_t items);

  const Nanos horizon_;
  std::map<Id, Entry> entries_;
  std::set<Key> order_;  // Of those to be asked.
  std::uint64_t turn_ = 0;
};

}  // namespace emplace::runtime
