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
  if (entry.done || holds_one || entry.open.size() >= options_.open_attempts) return std::nullopt;
  if (!entry.open.empty()) EMPLACE_MARK("lease.second_attempt");
  const Lease lease{.epoch = next_epoch_++,
                    .item = item,
                    .attempt = ++entry.attempts,
                    .holder = holder,
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

LeaseTable::Commit LeaseTable::commit(std::uint64_t epoch) {
  if (superseded_.erase(epoch) > 0) {
    return Commit::kDuplicate;
  }
  const auto lease = leases_.find(epoch);
  if (lease == leases_.end()) {
    EMPLACE_MARK("lease.fenced_result");
    return Commit::kFenced;
  }
  Item& item = items_.at(lease->second.item);
  for (const std::uint64_t other : item.open) {
    if (other == epoch) continue;
    EMPLACE_MARK("lease.superseded");
    superseded_.emplace(other, lease->second.item);
    item.superseded.push_back(other);
    leases_.erase(other);
    ++counters_.superseded;
  }
  item.open.clear();
  item.done = true;
  leases_.erase(epoch);
  ++counters_.committed;
  return Commit::kCounts;
}

template <class Predicate>
std::vector<Lease> LeaseTable::end_where(Predicate&& ends) {
  std::vector<Lease> ended;
  for (const auto& [epoch, lease] : leases_)
    if (ends(lease)) ended.push_back(lease);
  std::sort(ended.begin(), ended.end(), [](const Lease& a, const Lease& b) { return a.epoch < b.epoch; });
  for (const Lease& lease : ended) {
    leases_.erase(lease.epoch);
    std::erase(items_.at(lease.item).open, lease.epoch);
    std::erase(reported_, lease.epoch);
    ++counters_.expired;
  }
  return ended;
}

std::vector<Lease> LeaseTable::expire(Nanos now) {
  const Nanos patience = options_.heartbeat * options_.missed;
  std::vector<Lease> ended = end_where([&](const Lease& lease) { return now - lease.renewed > patience; });
  if (!ended.empty()) EMPLACE_MARK("lease.expired");
  return ended;
}

std::vector<Lease> LeaseTable::drop(messages::ActorId holder) {
  std::vector<Lease> ended = end_where([&](const Lease& lease) { return lease.holder == holder; });
  if (!ended.empty()) EMPLACE_MARK("lease.dropped");
  return ended;
}

std::vector<Lease> LeaseTable::end(std::uint64_t epoch) {
  return end_where([&](const Lease& lease) { return lease.epoch == epoch; });
}

std::vector<Lease> LeaseTable::overdue(Nanos now) {
  std::vector<Lease> late;
  for (const auto& [epoch, lease] : leases_) {
    const bool named = std::find(reported_.begin(), reported_.end(), epoch) != reported_.end();
    if (!named && now > lease.evaluate_until && items_.at(lease.item).open.size() == 1) late.push_back(lease);
  }
  std::sort(late.begin(), late.end(), [](const Lease& a, const Lease& b) { return a.epoch < b.epoch; });
  for (const Lease& lease : late) reported_.push_back(lease.epoch);
  if (!late.empty()) EMPLACE_MARK("lease.overdue");
  return late;
}

void LeaseTable::forget(std::uint64_t item) {
  const auto entry = items_.find(item);
  if (entry == items_.end() || !entry->second.open.empty()) return;
  if (!entry->second.superseded.empty()) EMPLACE_MARK("lease.forgotten_with_superseded");
  for (const std::uint64_t epoch : entry->second.superseded) superseded_.erase(epoch);
  items_.erase(entry);
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
