#pragma once
/// Who works on what, until when, and whose result counts.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "messages/envelope.h"

namespace emplace::runtime {

struct Lease {
  std::uint64_t epoch = 0;    ///< Unique; the result names it.
  std::uint64_t item = 0;     ///< The caller's number for the work.
  std::uint32_t attempt = 0;  ///< Of this item, from 1.
  messages::ActorId holder = messages::kNobody;
  Nanos renewed{0};
  Nanos evaluate_until{0};  ///< Past it a second attempt is worth while.
};

struct LeaseOptions {
  Nanos heartbeat = std::chrono::milliseconds{500};
  int missed = 3;                 ///< Heartbeats; then the lease expires.
  std::size_t open_attempts = 2;  ///< Of one item at once.
};

/// Conservation: issued == committed + superseded + expired + open. Pure; one thread.
class LeaseTable {
 public:
  enum class Commit : std::uint8_t {
    kCounts,     ///< The first result of its item.
    kDuplicate,  ///< Another attempt was first.
    kFenced,     ///< The lease expired, was dropped, or never was: it never counts.
  };
  struct Counters {
    std::uint64_t issued = 0, committed = 0, superseded = 0, expired = 0;
  };

  explicit LeaseTable(LeaseOptions options = {}, std::uint64_t first_epoch = 1);

  /// Empty: so many attempts are open already, or this holder has one, or the item is done.
  std::optional<Lease> grant(std::uint64_t item, messages::ActorId holder, Nanos now, Nanos evaluation_limit);
  /// The holder lives and still works on these epochs; those of others are ignored.
  void renew(messages::ActorId holder, std::span<const std::uint64_t> epochs, Nanos now);
  /// A result came. On kCounts the item's other attempts are superseded.
  Commit commit(std::uint64_t epoch);
  /// Ends the leases that were not renewed in time; an item without open attempts may be granted again.
  std::vector<Lease> expire(Nanos now);
  /// Ends all leases of a holder that is gone.
  std::vector<Lease> drop(messages::ActorId holder);
  /// Ends one lease; empty if it is not open.
  std::vector<Lease> end(std::uint64_t epoch);
  /// Leases past their evaluation limit whose item has no second attempt; each is named once.
  std::vector<Lease> overdue(Nanos now);
  /// The caller is finished with a committed item; its late results are kFenced from now on.
  void forget(std::uint64_t item);

  const Lease* find(std::uint64_t epoch) const;
  std::size_t open() const { return leases_.size(); }
  std::size_t open_of(std::uint64_t item) const;
  /// Whoever works on it; of two the first; nobody.
  messages::ActorId holder_of(std::uint64_t item) const;
  const Counters& counters() const { return counters_; }

 private:
  struct Item {
    std::uint32_t attempts = 0;
    bool done = false;
    std::vector<std::uint64_t> open;
    std::vector<std::uint64_t> superseded;
  };
  template <class Predicate>
  std::vector<Lease> end_where(Predicate&& ends);

  LeaseOptions options_;
  std::uint64_t next_epoch_;
  std::unordered_map<std::uint64_t, Lease> leases_;  // By epoch: open ones.
  std::unordered_map<std::uint64_t, Item> items_;
  std::unordered_map<std::uint64_t, std::uint64_t> superseded_;  // Epoch to item.
  std::vector<std::uint64_t> reported_;                          // Epochs that overdue() has named.
  Counters counters_;
};

}  // namespace emplace::runtime
