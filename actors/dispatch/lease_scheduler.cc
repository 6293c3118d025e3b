#include "actors/dispatch/lease_scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/mark.h"

namespace emplace::actors {

using messages::ActorId;
using runtime::Lease;

LeaseScheduler::LeaseScheduler(LeaseSchedulerOptions options)
    : options_{options},
      executors_{{options_.window, static_cast<std::int64_t>(options_.window_bytes)}},
      leases_{options_.lease},
      roster_{options_.horizon},
      quarantine_{options_.quarantine},
      demand_{options_.demand} {}

void LeaseScheduler::start(std::uint64_t first_epoch) {
  leases_ = runtime::LeaseTable{options_.lease, first_epoch};
}

void LeaseScheduler::add(std::span<const Range> ranges, Nanos now) {
  std::uint32_t placements = 0;
  for (const Range& range : ranges) {
    placements += range.count;
    ranges_.add(range);
  }
  demand_.proposed(placements, now);
}

// Executors.

void LeaseScheduler::join(const messages::ExecutorJoined& joined, Nanos now) {
  const ActorId executor = messages::actor_id(joined.name);
  executors_.join(joined, now);
  roster_.join(executor);
  quarantine_.join(executor, now);
}

bool LeaseScheduler::left(const messages::ExecutorLeft& left, ActorId from, Nanos now) {
  if (executors_.find(left.executor, left.epoch, from) == nullptr) return false;
  const auto executor = executors_.leave(from);
  roster_.leave(from);
  quarantine_.leave(from, now);
  std::vector<std::uint64_t> undone = left.leases;
  for (auto held = executor->held.upper_bound(left.seen); held != executor->held.end(); ++held)
    undone.push_back(held->first);
  for (const std::uint64_t epoch : undone) {
    const Lease* const open = leases_.find(epoch);
    if (open != nullptr && open->holder == from) requeue(leases_.end(epoch));
  }
  return true;
}

std::optional<std::string> LeaseScheduler::lost(ActorId executor, Nanos now) {
  requeue(leases_.drop(executor));
  auto lost = executors_.leave(executor);
  if (!lost) return std::nullopt;
  roster_.leave(executor);
  quarantine_.leave(executor, now);
  return std::move(lost->name);
}

bool LeaseScheduler::grant(const messages::CreditGranted& granted, ActorId from) {
  if (executors_.find(granted.executor, granted.epoch, from) == nullptr) return false;
  executors_.grant(from, {granted.placements, static_cast<std::int64_t>(granted.bytes)});
  roster_.ask(from);
  return true;
}

bool LeaseScheduler::heartbeat(const messages::Heartbeat& heartbeat, ActorId from, Nanos now) {
  executors_.beat(from, heartbeat.busy_s, now);
  std::vector<std::uint64_t> alive = heartbeat.leases, gone;
  std::sort(alive.begin(), alive.end());
  const std::size_t named = alive.size();
  for (const auto& [epoch, held] : executors_.at(from).held) {
    const auto end = alive.begin() + static_cast<std::ptrdiff_t>(named);
    if (std::binary_search(alive.begin(), end, epoch)) continue;
    const bool comes = epoch > heartbeat.seen && now <= held.arrives_until;
    if (comes) alive.push_back(epoch);
    if (!comes && leases_.find(epoch) == nullptr) gone.push_back(epoch);
  }
  leases_.renew(from, alive, now);
  for (const std::uint64_t epoch : gone) give_back(from, epoch, now);
  return !gone.empty();
}

// Scheduling.

void LeaseScheduler::assign(Nanos now, const Send& send) {
  ranges_.offer([&](std::uint64_t range) { return place(range, now, send); });
}

std::uint64_t LeaseScheduler::speculate(Nanos now, const Send& send) {
  std::uint64_t granted = 0;
  if (options_.speculate <= 0 || !ranges_.none_waiting() || durations_.known() < options_.speculate_from)
    return granted;
  const auto age = static_cast<std::int64_t>(options_.straggler_factor *
                                             static_cast<double>(durations_.at(options_.speculate).count()));
  for (const Lease& old : leases_.older(Nanos{age}, now)) {
    const auto next = roster_.next([&](ActorId executor) { return may_take(old.item, executor, now); });
    if (!next || !roster_.idle(*next)) break;
    if (!lease(*next, old.item, now, send)) {
      roster_.pass(*next);
      continue;
    }
    EMPLACE_MARK("dispatcher.speculated");
    ++granted;
  }
  return granted;
}

bool LeaseScheduler::may_take(std::uint64_t range, ActorId executor, Nanos now) const {
  return leases_.may_grant(range, executor, now) &&
         quarantine_.may_take(range, executor, roster_.idle(executor), now);
}

/// Returns false if no executor can take the range now.
bool LeaseScheduler::place(std::uint64_t range, Nanos now, const Send& send) {
  const std::vector<ActorId>& tried_by = ranges_.tried_by(range);
  const auto had_it = [&](ActorId executor) {
    return std::find(tried_by.begin(), tried_by.end(), executor) != tried_by.end();
  };
  // Executors that had it before are tried last: they may be joining and leaving all the time.
  for (const bool again : {false, true}) {
    if (again && tried_by.empty()) break;
    const auto may = [&](ActorId executor) {
      return (again || !had_it(executor)) && may_take(range, executor, now);
    };
    while (const auto next = roster_.next(may)) {
      if (lease(*next, range, now, send)) return true;
      roster_.pass(*next);
    }
  }
  return false;
}

/// Returns false if credit does not cover the range, or if the lease could not be sent.
bool LeaseScheduler::lease(ActorId executor, std::uint64_t range, Nanos now, const Send& send) {
  const runtime::Credit size = ranges_.size_of(range);
  if (!executors_.reserve(executor, size)) return false;
  const Nanos limit = std::max(options_.evaluation_limit, 10 * slowest_);
  const auto granted = leases_.grant(range, executor, now, limit);
  EMPLACE_CHECK(granted.has_value(), "may_take() allows one more attempt");
  executors_.hold(executor, granted->epoch, {size, now + options_.transit});
  roster_.give(executor, size.items, now);
  if (send(*granted, executors_.at(executor).epoch)) return true;
  // Full queue: the range goes to another executor.
  give_back(executor, granted->epoch, now);
  requeue(leases_.end(granted->epoch));
  return false;
}

void LeaseScheduler::give_back(ActorId executor, std::uint64_t lease, Nanos now) {
  if (const auto credit = executors_.give_back(executor, lease)) roster_.finish(executor, credit->items, now);
}

void LeaseScheduler::requeue(const std::vector<Lease>& ended) {
  for (const Lease& lease : ended) ranges_.ended(lease.item, lease.holder, leases_.open_of(lease.item));
}

void LeaseScheduler::expire(Nanos now) {
  const std::vector<Lease> expired = leases_.expire(now);
  for (const Lease& lease : expired) {
    // A lower bound of its time per item, so that other executors are preferred.
    const double seconds = std::chrono::duration<double>(now - lease.granted).count();
    roster_.measured(lease.holder, seconds / static_cast<double>(ranges_.size_of(lease.item).items));
  }
  requeue(expired);
  for (const Lease& lease : leases_.overdue(now)) ranges_.overdue(lease.item);
  roster_.ask_all();
}

// Results.

std::optional<Lease> LeaseScheduler::answered(const messages::PlacementMeasured& measured, ActorId from,
                                              Nanos now) {
  if (executors_.find(measured.executor, from) != nullptr) give_back(from, measured.lease_epoch, now);
  const Lease* const open = leases_.find(measured.lease_epoch);
  // Refused: the lease has ended or never existed.
  if (open == nullptr) (void)leases_.commit(measured.lease_epoch);
  if (open == nullptr || open->holder != from) return std::nullopt;
  return *open;
}

void LeaseScheduler::succeeded(const Lease& lease, const messages::PlacementMeasured& measured, Nanos now) {
  (void)leases_.commit(lease.epoch);
  quarantine_.succeeded(lease.item, lease.holder, now);
  durations_.add(now - lease.granted);
  if (const auto worked = executors_.measured(lease.holder, measured.count, lease.granted, now)) {
    const double placement_s = std::chrono::duration<double>(*worked).count() / measured.count;
    roster_.measured(lease.holder, placement_s);
    demand_.measured(placement_s, measured.count);
  }
  slowest_ = std::max(slowest_, Nanos{static_cast<std::int64_t>(measured.wall_s * 1e9)});
  ranges_.done(lease.item);
}

std::optional<Nanos> LeaseScheduler::failed(const Lease& lease, const std::string& why, Nanos now) {
  ranges_.failed(lease.item);
  requeue(leases_.end(lease.epoch));
  const bool starts = quarantine_.failed(lease.item, lease.holder, why, now);
  const std::optional<Nanos> until = quarantine_.until(lease.holder);
  if (!starts || !until) return std::nullopt;
  if (executors_.contains(lease.holder))
    for (const auto& [epoch, held] : executors_.at(lease.holder).held) requeue(leases_.end(epoch));
  return until;
}

std::uint32_t LeaseScheduler::executors_wanted(Nanos now) {
  const std::uint64_t open = ranges_.placements();
  return demand_.wanted(open - std::min(open, executors_.placements_running()), ranges_.ranges(), now);
}

}  // namespace emplace::actors
