#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "messages/envelope.h"
#include "messages/executor_control.h"
#include "messages/run_control.h"
#include "runtime/core/credit.h"

namespace emplace::actors {

/// A lease that an executor may still be working on.
struct HeldLease {
  runtime::Credit credit;
  Nanos arrives_until{0};  ///< Time until which it may be in flight to the executor.
};

/// Account of an executor that takes part.
struct JoinedExecutor {
  std::string name;
  std::uint64_t epoch = 0;  ///< Incarnation.
  runtime::CreditAccount credit;
  std::map<std::uint64_t, HeldLease> held = {};  ///< Keyed by lease epoch.
  std::uint64_t measured = 0;                    ///< Placements whose results counted.
  double busy_s = 0;                             ///< Busy time since it joined, according to its heartbeats.
  std::optional<double> busy_before = {};        ///< Its busy time at the moment it joined [s].
  Nanos joined{0};
  Nanos answered{0};  ///< Time of its last result that counted.
};

/// Executors that take part: their credit, the leases that they may still be working on, and their use.
/// Credit follows these held leases, not the open ones: an expired lease occupies its executor until its
/// result arrives or its heartbeats no longer list it. Otherwise a slow executor would get ever more work.
/// Invariants:
///
/// - Credit in flight of an executor == sum of the credit of its held leases, except between reserve() and
///   hold(). It is at most the window, or one lease in bytes.
/// - A held lease is given back once: by give_back(), or when its executor leaves.
///
/// Pure. Owner loop only.
class JoinedExecutors {
 public:
  /// `window`: upper limit of what is in flight at one executor.
  explicit JoinedExecutors(runtime::Credit window) : window_{window} {}

  /// Adds an executor with its first credit. @pre It is not present.
  void join(const messages::ExecutorJoined& joined, Nanos now);
  /// Removes an executor and returns its last state; empty if it is not present.
  std::optional<JoinedExecutor> leave(messages::ActorId executor);
  bool contains(messages::ActorId executor) const { return executors_.contains(executor); }
  /// State of an executor, or null if it is not present or has another name: no executor may act for another.
  const JoinedExecutor* find(const std::string& name, messages::ActorId from) const;
  /// The same, or null if it is another incarnation.
  const JoinedExecutor* find(const std::string& name, std::uint64_t epoch, messages::ActorId from) const;
  /// @pre contains().
  const JoinedExecutor& at(messages::ActorId executor) const { return executors_.at(executor); }

  /// Adds credit that the executor granted. @pre contains().
  void grant(messages::ActorId executor, runtime::Credit more) { executors_.at(executor).credit.grant(more); }
  /// Moves credit for a lease from available to in flight; hold() must follow. Returns false if it does not
  /// cover `size`. @pre contains().
  bool reserve(messages::ActorId executor, runtime::Credit size);
  /// Records the lease that reserve() was for. @pre contains().
  void hold(messages::ActorId executor, std::uint64_t lease, HeldLease held);
  /// Takes back the credit of a lease that the executor no longer works on. Returns it; empty if the
  /// executor is not present or does not hold the lease.
  std::optional<runtime::Credit> give_back(messages::ActorId executor, std::uint64_t lease);

  /// Records the busy time of a heartbeat. @pre contains().
  void beat(messages::ActorId executor, double busy_s, Nanos now);
  /// Records a result that counts, of a lease granted at `granted`. Returns the time that the executor worked
  /// on it by our clock: an executor that claims to be fast would get all the work. Empty if the executor is
  /// not present.
  std::optional<Nanos> measured(messages::ActorId executor, std::uint32_t placements, Nanos granted,
                                Nanos now);

  std::size_t size() const { return executors_.size(); }
  /// Placements being measured: an executor works on its oldest lease; all others at it wait.
  std::uint64_t placements_running() const;
  /// Use of each executor, in the order of names.
  std::vector<messages::ExecutorUse> uses(Nanos now) const;

 private:
  const runtime::Credit window_;
  std::unordered_map<messages::ActorId, JoinedExecutor> executors_;
  std::map<std::string, const JoinedExecutor*> by_name_;  ///< All of executors_.
};

}  // namespace emplace::actors
