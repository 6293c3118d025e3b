#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/dispatch/joined_executors.h"
#include "actors/dispatch/range.h"
#include "actors/dispatch/range_queue.h"
#include "base/clock.h"
#include "messages/envelope.h"
#include "messages/executor_control.h"
#include "messages/placement_measured.h"
#include "runtime/core/demand.h"
#include "runtime/core/lease.h"
#include "runtime/core/quarantine.h"
#include "runtime/core/recent.h"
#include "runtime/core/roster.h"

namespace emplace::actors {

struct LeaseSchedulerOptions {
  std::uint32_t window = 512;  ///< Maximum placements in flight at one executor.
  std::uint64_t window_bytes = 64u << 20;
  /// Work given to an executor beyond two leases, by its measured rate.
  Nanos horizon = std::chrono::milliseconds{250};
  runtime::LeaseOptions lease;
  runtime::DemandOptions demand;
  /// Lower bound of the limit after which a second executor may try.
  Nanos evaluation_limit = std::chrono::seconds{30};
  /// Speculative execution, while no other work waits: an idle executor also gets a lease that is older than
  /// `straggler_factor` × the `speculate` quantile of recent durations. 0 disables it.
  double speculate = 0.99;
  double straggler_factor = 2;
  std::size_t speculate_from = 50;  ///< Number of known durations from which it is used.
  runtime::QuarantineOptions quarantine;
  /// Time during which a lease may still be in flight to its holder.
  Nanos transit = std::chrono::seconds{5};
};

/// Which executor measures which range, and whose result counts. Gives ranges to executors under leases, and
/// gives them to others when a lease ends without a result. Invariants:
///
/// - An unfinished range has an open lease or is queued (RangeQueue); a range is finished once.
/// - A result counts only if its lease is open and held by its sender. Committing a lease closes all others
///   of the range, so each placement counts once, whatever the number of executors that measured it.
/// - Roster, quarantine and JoinedExecutors contain the same executors as present.
/// - All state may be lost: samplers and executors restore it by proposing and joining again.
///
/// For leases see LeaseTable, for credit JoinedExecutors. Times never go back. Pure. Owner loop only.
class LeaseScheduler {
 public:
  /// Sends a lease to its holder of this incarnation. Returns false if a full queue refused it.
  using Send = std::function<bool(const runtime::Lease& lease, std::uint64_t executor_epoch)>;

  explicit LeaseScheduler(LeaseSchedulerOptions options);
  /// Sets the first lease epoch. It must exceed those of earlier incarnations, so that no late result matches
  /// a lease of this one. @pre No lease was granted.
  void start(std::uint64_t first_epoch);

  /// Queues the ranges of a proposed episode.
  void add(std::span<const Range> ranges, Nanos now);

  /// Adds an executor. @pre It is not present; lost() removes an earlier incarnation.
  void join(const messages::ExecutorJoined& joined, Nanos now);
  /// Removes an executor that leaves. The leases that it returns are queued at once; results that it has sent
  /// may still arrive. Returns false if it is not present in this incarnation.
  bool left(const messages::ExecutorLeft& left, messages::ActorId from, Nanos now);
  /// Ends all leases of an executor and removes it. Returns its name; empty if it is not present.
  std::optional<std::string> lost(messages::ActorId executor, Nanos now);
  /// Adds credit. Returns false if the executor is not present in this incarnation.
  bool grant(const messages::CreditGranted& granted, messages::ActorId from);
  /// Renews the leases that the executor works on and those that may be in flight to it. Takes back the
  /// credit of ended leases that it no longer works on; returns whether there is any. @pre The executor is
  /// present in this incarnation.
  bool heartbeat(const messages::Heartbeat& heartbeat, messages::ActorId from, Nanos now);

  /// Grants leases on queued ranges until ranges or credit run out.
  void assign(Nanos now, const Send& send);
  /// Speculative execution: while no work waits and an executor is idle, gives it a lease that takes far
  /// longer than usual. Returns the number of these leases.
  std::uint64_t speculate(Nanos now, const Send& send);
  /// Ends the leases that were not renewed in time, and queues their ranges and the overdue ones. Call it
  /// regularly.
  void expire(Nanos now);

  /// Takes back the credit of the lease of a result, however late. Returns the lease if it is open and held
  /// by `from`: then succeeded() or failed() must follow. Empty: the result does not count.
  std::optional<runtime::Lease> answered(const messages::PlacementMeasured& measured, messages::ActorId from,
                                         Nanos now);
  /// Finishes the range of an open lease by a result of its holder, which counts.
  void succeeded(const runtime::Lease& lease, const messages::PlacementMeasured& measured, Nanos now);
  /// Rejects a result: ends the lease and queues the range. Returns the end of the quarantine if this starts
  /// one; all leases of the executor then end. `why`: for hopeless().
  std::optional<Nanos> failed(const runtime::Lease& lease, const std::string& why, Nanos now);

  /// Why no present executor can do the work; empty if one may (runtime/core/quarantine.h).
  std::optional<std::string> hopeless(Nanos now) const { return quarantine_.hopeless(now); }
  std::size_t quarantined(Nanos now) const { return quarantine_.quarantined(now); }
  /// Executors that would be busy now (runtime/core/demand.h). Call it regularly.
  std::uint32_t executors_wanted(Nanos now);

  const runtime::LeaseTable& leases() const { return leases_; }
  const JoinedExecutors& executors() const { return executors_; }
  const RangeQueue& ranges() const { return ranges_; }

 private:
  bool may_take(std::uint64_t range, messages::ActorId executor, Nanos now) const;
  bool place(std::uint64_t range, Nanos now, const Send& send);
  bool lease(messages::ActorId executor, std::uint64_t range, Nanos now, const Send& send);
  void give_back(messages::ActorId executor, std::uint64_t lease, Nanos now);
  void requeue(const std::vector<runtime::Lease>& ended);

  const LeaseSchedulerOptions options_;
  RangeQueue ranges_;
  JoinedExecutors executors_;
  runtime::LeaseTable leases_;  ///< Its items are the numbers of ranges.
  runtime::Roster roster_;
  runtime::Quarantine quarantine_;
  runtime::RecentDurations durations_;  ///< Lease durations, from grant to result.
  runtime::Demand demand_;
  Nanos slowest_{0};  ///< Longest measuring time of a lease.
};

}  // namespace emplace::actors
