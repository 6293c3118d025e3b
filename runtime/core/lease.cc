#include "runtime/core/lease.h"

#include <algorithm>

#include "base/mark.h"

namespace emplace::runtime {

LeaseTable::LeaseTable(LeaseOptions options, std::uint64_t first_epoch)
    : options_{options}, next_epoch_{first_epoch} {}

std::optional<Lease> LeaseTable::grant(std::uint64_t item, messages::ActorId holder, Nanos now,
                                       Nanos evaluation_limit) {
  Item& entry = items_[item];
  const bool holds_one = std::any_of(entry.open.begin(), entry.open.end(),
                                     [&](std::uint64_t epoch) { return leases_.at(epoch).holder == holder; });
  if (holds_one || entry.open.size() >= options_.open_attempts) return std::nullopt;
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
    leases_.erase(other);
    ++counters_.superseded;
  }
  items_.erase(item);
  leases_.erase(epoch);
  ++counters_.committed;
  return true;
}

template <class Predicate>
std::vector<Lease> LeaseTable::end_where(std::uint64_t& counter, Predicate&& ends) {
  std::vector<Lease> ended;
  std::erase_if(leases_, [&](const auto& entry) {
    if (!ends(entry.second)) return false;
    ended.push_back(entry.second);
    return true;
  });
  for (const Lease& lease : ended) std::erase(items_.at(lease.item).open, lease.epoch);
  counter += ended.size();
  return ended;
}

std::vector<Lease> LeaseTable::expire(Nanos now) {
  const Nanos patience = options_.heartbeat * options_.missed;
  std::vector<Lease> ended =
      end_where(counters_.expired, [&](const Lease& lease) { return now - lease.renewed > patience; });
  if (!ended.empty()) EMPLACE_MARK("lease.expired");
  return ended;
}

std::vector<Lease> LeaseTable::drop(messages::ActorId holder) {
  std::vector<Lease> ended =
      end_where(counters_.expired, [&](const Lease& lease) { return lease.holder == holder; });
  if (!ended.empty()) EMPLACE_MARK("lease.dropped");
  return ended;
}

std::vector<Lease> LeaseTable::end(std::uint64_t epoch) {
  const auto lease = leases_.find(epoch);
  if (lease == leases_.end()) return {};
  EMPLACE_MARK("lease.returned");
  std::vector<Lease> ended{lease->second};
  std::erase(items_.at(lease->second.item).open, epoch);
  leases_.erase(lease);
  ++counters_.returned;
  return ended;
}

std::vector<Lease> LeaseTable::overdue(Nanos now) const {
  std::vector<Lease> late;
  for (const auto& [epoch, lease] : leases_)
    if (now > lease.evaluate_until && alone(lease)) late.push_back(lease);
  if (!late.empty()) EMPLACE_MARK("lease.overdue");
  return late;
}

std::vector<Lease> LeaseTable::older(Nanos age, Nanos now) const {
  std::vector<Lease> old;
  for (const auto& [epoch, lease] : leases_) {
    if (now - lease.granted <= age) break;  // And so is every later one.
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

messages::ActorId LeaseTable::holder_of(std::uint64_t item) const {
  const auto entry = items_.find(item);
  if (entry == items_.end() || entry->second.open.empty()) return messages::kNobody;
  return leases_.at(entry->second.open.front()).holder;
}

}  // namespace emplace::runtime
