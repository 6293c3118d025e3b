#include "runtime/core/roster.h"

#include <algorithm>
#include <cmath>

#include "base/mark.h"

namespace emplace::runtime {
namespace {

constexpr std::int64_t kAtHand = 2;    // Leases that any executor may hold: one running, one queued.
constexpr double kNewest = 0.25;       // Weight of the newest measurement in the average.
constexpr double kLongestItemS = 1e6;  // Rejects longer times as invalid, and prevents overflow.

}  // namespace

Nanos Roster::takes(const Entry& entry, std::int64_t items) {
  return Nanos{static_cast<std::int64_t>(
      std::min(entry.seconds_per_item * static_cast<double>(items), kLongestItemS) * 1e9)};
}

void Roster::stand(Id id, Entry& entry) {
  if (entry.key) order_.erase(*entry.key);
  entry.key.reset();
  const bool enough = entry.leases >= kAtHand && (!entry.measured || takes(entry, entry.items) >= horizon_);
  if (entry.passed || enough) return;
  const bool busy = entry.leases > 0;
  const Nanos done = (busy ? entry.free_at : Nanos{0}) + takes(entry, 1);
  entry.key = Key{busy, done.count(), entry.turn, id};
  order_.insert(*entry.key);
}

template <class Change>
void Roster::change(Id id, Change&& change) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  change(found->second);
  stand(id, found->second);
}

void Roster::join(Id id) {
  leave(id);
  entries_[id].turn = ++turn_;
  ask(id);
}

void Roster::leave(Id id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (found->second.key) order_.erase(*found->second.key);
  entries_.erase(found);
}

void Roster::give(Id id, std::int64_t items, Nanos now) {
  change(id, [&](Entry& entry) {
    ++entry.leases;
    entry.items += items;
    entry.free_at = std::max(now, entry.free_at) + takes(entry, items);
    entry.turn = ++turn_;
  });
}

void Roster::finish(Id id, std::int64_t items, Nanos now) {
  change(id, [&](Entry& entry) {
    entry.leases = std::max<std::int64_t>(entry.leases - 1, 0);
    entry.items = std::max<std::int64_t>(entry.items - items, 0);
    entry.free_at = now + takes(entry, entry.items);
    entry.passed = false;
  });
}

void Roster::measured(Id id, double seconds_per_item) {
  if (!std::isfinite(seconds_per_item) || seconds_per_item < 0 || seconds_per_item > kLongestItemS) return;
  change(id, [&](Entry& entry) {
    entry.seconds_per_item =
        entry.measured ? std::lerp(entry.seconds_per_item, seconds_per_item, kNewest) : seconds_per_item;
    entry.measured = true;
  });
}

bool Roster::idle(Id id) const {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.leases == 0;
}

void Roster::pass(Id id) {
  EMPLACE_MARK("roster.passed");
  change(id, [](Entry& entry) { entry.passed = true; });
}

void Roster::ask(Id id) {
  change(id, [](Entry& entry) { entry.passed = false; });
}

void Roster::ask_all() {
  for (auto& [id, entry] : entries_) {
    if (!entry.passed) continue;
    entry.passed = false;
    stand(id, entry);
  }
}

}  // namespace emplace::runtime
