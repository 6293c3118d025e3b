#include "actors/dispatch/range_queue.h"

#include <algorithm>

namespace emplace::actors {
namespace {

constexpr std::size_t kMaxTriedBy = 8;  // Executors remembered per range in tried_by.

}  // namespace

void RangeQueue::add(const Range& range) {
  Unfinished& added = ranges_.emplace(range.number, Unfinished{range.size}).first->second;
  placements_ += static_cast<std::uint64_t>(range.size.items);
  enqueue(range.number, added, waiting_);
}

void RangeQueue::ended(std::uint64_t range, messages::ActorId holder, std::size_t open) {
  Unfinished& unfinished = ranges_.at(range);
  std::vector<messages::ActorId>& tried_by = unfinished.tried_by;
  if (std::find(tried_by.begin(), tried_by.end(), holder) == tried_by.end()) {
    if (tried_by.size() >= kMaxTriedBy) tried_by.erase(tried_by.begin());
    tried_by.push_back(holder);
  }
  if (open == 0) enqueue(range, unfinished, unfinished.failed ? failed_ : waiting_);
}

void RangeQueue::overdue(std::uint64_t range) {
  const auto found = ranges_.find(range);
  if (found != ranges_.end()) enqueue(range, found->second, overdue_);
}

void RangeQueue::done(std::uint64_t range) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end()) return;
  placements_ -= static_cast<std::uint64_t>(found->second.size.items);
  ranges_.erase(found);
}

void RangeQueue::enqueue(std::uint64_t range, Unfinished& unfinished, std::deque<std::uint64_t>& queue) {
  if (unfinished.queued) return;
  unfinished.queued = true;
  queue.push_back(range);
}

}  // namespace emplace::actors
