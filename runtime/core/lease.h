#pragma once
/// Leases: which executor works on which item, until when, and whose result counts.

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
  std::uint64_t epoch = 0;    ///< Unique and increasing; results refer to it.
  std::uint64_t item = 0;     ///< Work item, numbered by the caller.
  std::uint32_t attempt = 0;  ///< Attempt at this item, from 1.
  messages::ActorId holder = messages::kNoActor;
  Nanos granted{0};
  Nanos renewed{0};
  Nanos evaluate_until{0};  ///< Time after which a second attempt gets priority.
};

struct LeaseOptions {
  Nanos heartbeat = std::chrono::milliseconds{500};
  int missed = 3;                 ///< Missed heartbeats after which a lease expires.
  std::size_t open_attempts = 2;  ///< Open attempts per item, unless all are overdue.
};

/// Invariant: issued == committed + superseded + returned + expired + open. Pure; one thread.
class LeaseTable {
 public:
  struct Counters {
    std::uint64_t issued = 0, committed = 0;
    std::uint64_t superseded = 0;  ///< Another attempt at the item finished first.
    std::uint64_t returned = 0;    ///< Given back undone, or never received.
    std::uint64_t expired = 0;     ///< Not renewed in time, or its holder was lost.
  };

  explicit LeaseTable(LeaseOptions options = {}, std::uint64_t first_epoch = 1);

  /// Whether grant() would succeed: the holder has no open attempt at the item, and there are fewer than
  /// `open_attempts` or all of them are overdue. So holders that never answer cannot block an item for ever.
  bool may_grant(std::uint64_t item, messages::ActorId holder, Nanos now) const;
  /// Grants a lease; empty if may_grant() is false. A committed item counts as new: the caller must not grant
  /// it again.
  std::optional<Lease> grant(std::uint64_t item, messages::ActorId holder, Nanos now, Nanos evaluation_limit);
  /// Extends the holder's leases with these epochs; epochs of other holders are ignored.
  void renew(messages::ActorId holder, std::span<const std::uint64_t> epochs, Nanos now);
  /// Commits a result. Returns true for the first result of an item, whose other attempts are superseded;
  /// false if the lease ended or never existed: the result must be dropped.
  bool commit(std::uint64_t epoch);
  /// Ends the leases that were not renewed in time; an item without open attempts may be granted again.
  std::vector<Lease> expire(Nanos now);
  /// Ends all leases of a lost holder.
  std::vector<Lease> drop(messages::ActorId holder);
  /// Ends one lease that is given back; empty if it is not open.
  std::vector<Lease> end(std::uint64_t epoch);
  /// Overdue leases of items whose attempts are all overdue, oldest first.
  std::vector<Lease> overdue(Nanos now) const;
  /// Leases granted more than `age` ago whose item has a single attempt, oldest first.
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
  std::map<std::uint64_t, Lease> leases_;  // Open leases by epoch, hence by age.
  std::unordered_map<messages::ActorId, std::set<std::uint64_t>> held_;  // Epochs of open leases, by holder.
  std::unordered_map<std::uint64_t, Item> items_;
  Counters counters_;
};

}  // namespace emplace::runtime
