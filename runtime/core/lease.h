#pragma once
/// Who works on what, until when, and whose result counts.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "messages/envelope.h"

namespace emplace::runtime {

struct Lease {
  std::uint64_t epoch = 0;    ///< Unique, and higher than those of earlier ones; the result names it.
  std::uint64_t item = 0;     ///< The caller's number for the work.
  std::uint32_t attempt = 0;  ///< Of this item, from 1.
  messages::ActorId holder = messages::kNobody;
  Nanos granted{0};
  Nanos renewed{0};
  Nanos evaluate_until{0};  ///< Past it a second attempt is worth while, whatever else waits.
};

struct LeaseOptions {
  Nanos heartbeat = std::chrono::milliseconds{500};
  int missed = 3;                 ///< Heartbeats; then the lease expires.
  std::size_t open_attempts = 2;  ///< Of one item at once, unless all of them are past their limit.
};

/// Conservation: issued == committed + superseded + returned + expired + open. Pure; one thread.
class LeaseTable {
 public:
  struct Counters {
    std::uint64_t issued = 0, committed = 0;
    std::uint64_t superseded = 0;  ///< Another attempt at the item was first.
    std::uint64_t returned = 0;    ///< Given back undone: its holder said so, or never had it.
    std::uint64_t expired = 0;     ///< Not renewed in time, or of a holder that is lost.
  };

  explicit LeaseTable(LeaseOptions options = {}, std::uint64_t first_epoch = 1);

  /// True if grant() would: not so many attempts are open already, or all of them are past their evaluation
  /// limit, and this holder has none. So no number of holders that never answer keeps an item for ever.
  bool may_grant(std::uint64_t item, messages::ActorId holder, Nanos now) const;
  /// Empty: may_grant() is false. An item that was committed is a new one: the caller forgets what it is done
  /// with.
  std::optional<Lease> grant(std::uint64_t item, messages::ActorId holder, Nanos now, Nanos evaluation_limit);
  /// The holder lives and still works on these epochs; those of others are ignored.
  void renew(messages::ActorId holder, std::span<const std::uint64_t> epochs, Nanos now);
  /// A result came. True: the first of its item, whose other attempts are superseded. False: its lease has
  /// ended, or never was: it never counts.
  bool commit(std::uint64_t epoch);
  /// Ends the leases that were not renewed in time; an item without open attempts may be granted again.
  std::vector<Lease> expire(Nanos now);
  /// Ends all leases of a holder that is lost.
  std::vector<Lease> drop(messages::ActorId holder);
  /// Ends one lease, which is given back; empty if it is not open.
  std::vector<Lease> end(std::uint64_t epoch);
  /// Leases past their evaluation limit of items without an attempt that is within its own, oldest first.
  std::vector<Lease> overdue(Nanos now) const;
  /// Leases granted more than `age` ago whose item has no second attempt, oldest first.
  std::vector<Lease> older(Nanos age, Nanos now) const;

  const Lease* find(std::uint64_t epoch) const;
  std::size_t open() const { return leases_.size(); }
  std::size_t open_of(std::uint64_t item) const;
  const Counters& counters() const { return counters_; }

 private:
  struct Item {
    std::uint32_t attempts = 0;
    std::vector<std::uint64_t> open;
  };
  Lease take(std::uint64_t epoch);
  std::vector<Lease> end_all(const std::vector<std::uint64_t>& epochs, std::uint64_t& counter);
  bool all_overdue(const Item& item, Nanos now) const;
  bool alone(const Lease& lease) const { return items_.at(lease.item).open.size() == 1; }

  LeaseOptions options_;
  std::uint64_t next_epoch_;
  std::map<std::uint64_t, Lease> leases_;                                // By epoch, so by age: open ones.
  std::unordered_map<messages::ActorId, std::set<std::uint64_t>> held_;  // Of these, by holder.
  std::unordered_map<std::uint64_t, Item> items_;
  Counters counters_;
};

}  // namespace emplace::runtime
