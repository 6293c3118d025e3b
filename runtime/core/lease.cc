#include "runtime/core/lease.h"

#include <algorithm>

#include "base/mark.h"

namespace emplace::runtime {

LeaseTable::LeaseTable(LeaseOptions options, std::uint64_t first_epoch)
    : options_{options}, next_epoch_{first_epoch} {}

bool LeaseTable::may_grant(std::uint64_t item, messages::ActorId holder, Nanos now) const {
  const auto found = items_.find(item);
  if (found == items_.end()) return true;
  const Item& entry = found->second;
  const bool holds_one = std::any_of(entry.open.begin(), entry.open.end(),
                                     [&](std::uint64_t epoch) { return leases_.at(epoch).holder == holder; });
  return !holds_one && (entry.open.size() < options_.open_attempts || all_overdue(entry, now));
}

bool LeaseTable::all_overdue(const Item& item, Nanos now) const {
  return std::all_of(item.open.begin(), item.open.end(),
                     [&](std::uint64_t epoch) { return now > leases_.at(epoch).evaluate_until; });
}

std::optional<Lease> LeaseTable::grant(std::uint64_t item, messages::ActorId holder, Nanos now,
                                       Nanos evaluation_limit) {
  if (!may_grant(item, holder, now)) return std::nullopt;
  Item& entry = items_[item];
  if (!entry.open.empty()) EMPLACE_MARK("lease.second_attempt");
  const Lease lease{.epoch = next_epoch_++,
                    .item = item,
                    .attempt = ++entry.attempts,
                    .holder = holder,
                    .granted = now,
                    .renewed = now,
                    .evaluate_until = now + evaluation_limit};
  entry.open.push_back(lease.epoch);
  leases_.emplace(lease.epoch, lease);
  held_[holder].insert(lease.epoch);
  ++counters_.issued;
  return lease;
}

void LeaseTable::renew(messages::ActorId holder, std::span<const std::uint64_t> epochs, Nanos now) {
  for (const std::uint64_t epoch : epochs) {
    const auto lease = leases_.find(epoch);
    if (lease == leases_.end()) EMPLACE_MARK("lease.renewed_too_late");
    if (lease != leases_.end() && lease->second.holder == holder) lease->second.renewed = now;
  }
}

/// Removes an open lease. @pre it is open.
Lease LeaseTable::take(std::uint64_t epoch) {
  const auto found = leases_.find(epoch);
  const Lease lease = found->second;
  leases_.erase(found);
  const auto held = held_.find(lease.holder);
  held->second.erase(epoch);
  if (held->second.empty()) held_.erase(held);
  return lease;
}

bool LeaseTable::commit(std::uint64_t epoch) {
  const auto lease = leases_.find(epoch);
  if (lease == leases_.end()) {
    EMPLACE_MARK("lease.fenced_result");
    return false;
  }
  const auto item = items_.find(lease->second.item);
  for (const std::uint64_t other : item->second.open) {
    if (other == epoch) continue;
    EMPLACE_MARK("lease.superseded");
    take(other);
    ++counters_.superseded;
  }
  items_.erase(item);
  take(epoch);
  ++counters_.committed;
  return true;
}

std::vector<Lease> LeaseTable::end_all(const std::vector<std::uint64_t>& epochs, std::uint64_t& counter) {
  std::vector<Lease> ended;
  for (const std::uint64_t epoch : epochs) {
    ended.push_back(take(epoch));
    std::erase(items_.at(ended.back().item).open, epoch);
  }
  counter += ended.size();
  return ended;
}

std::vector<Lease> LeaseTable::expire(Nanos now) {
  const Nanos timeout = options_.heartbeat * options_.missed;
  std::vector<std::uint64_t> late;
  for (const auto& [epoch, lease] : leases_)
    if (now - lease.renewed > timeout) late.push_back(epoch);
  if (!late.empty()) EMPLACE_MARK("lease.expired");
  return end_all(late, counters_.expired);
}

std::vector<Lease> LeaseTable::drop(messages::ActorId holder) {
  const auto held = held_.find(holder);
  if (held == held_.end()) return {};
  EMPLACE_MARK("lease.dropped");
  return end_all({held->second.begin(), held->second.end()}, counters_.expired);
}

std::vector<Lease> LeaseTable::end(std::uint64_t epoch) {
  if (!leases_.contains(epoch)) return {};
  EMPLACE_MARK("lease.returned");
  return end_all({epoch}, counters_.returned);
}

std::vector<Lease> LeaseTable::overdue(Nanos now) const {
  std::vector<Lease> late;
  for (const auto& [epoch, lease] : leases_)
    if (now > lease.evaluate_until && all_overdue(items_.at(lease.item), now)) late.push_back(lease);
  if (!late.empty()) EMPLACE_MARK("lease.overdue");
  return late;
}

std::vector<Lease> LeaseTable::older(Nanos age, Nanos now) const {
  std::vector<Lease> old;
  for (const auto& [epoch, lease] : leases_) {
    if (now - lease.granted <= age) break;  // All later ones are younger.
    if (alone(lease)) old.push_back(lease);
  }
  return old;
}

const Lease* LeaseTable::find(std::uint64_t epoch) const {
  const auto lease = leases_.find(epoch);
  return lease == leases_.end() ? nullptr : &lease->second;
}

std::size_t LeaseTable::open_of(std::uint64_t item) const {
  const auto entry = items_.find(item);
  return entry == items_.end() ? 0 : entry->second.open.size();
}

}  // namespace emplace::runtime
