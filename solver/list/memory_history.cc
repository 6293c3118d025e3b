#include "solver/list/memory_history.h"

namespace emplace {

MemoryHistory::MemoryHistory(std::size_t devices, std::size_t ops)
    : ops_per_span_{ops / kSpans + 1}, devices_(devices) {
  for (Device& device : devices_) device.highest.assign(1, 0);
}

void MemoryHistory::tick(std::int64_t now_ns) {
  if (++ticks_ % ops_per_span_ != 0 || now_ns <= begins_.back()) return;
  begins_.push_back(now_ns);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    level(d, now_ns);
    devices_[d].highest.push_back(devices_[d].level);
  }
}

void MemoryHistory::take(std::size_t device, std::int64_t bytes, std::int64_t from_ns) {
  Device& at = devices_[device];
  at.level += bytes;
  const std::size_t last = begins_.size() - 1;
  const std::size_t first = std::min(last, span_of(std::max<std::int64_t>(0, from_ns)));
  for (std::size_t s = first; s < last; ++s) at.highest[s] += bytes;
  at.highest[last] = first < last ? at.highest[last] + bytes : std::max(at.highest[last], at.level);
}

void MemoryHistory::give_back(std::size_t device, std::int64_t bytes, std::int64_t at_ns) {
  if (bytes == 0) return;
  Device& at = devices_[device];
  if (at_ns >= begins_.back()) {
    at.returns.push({at_ns, bytes});
    return;
  }
  at.level -= bytes;
  for (std::size_t s = span_of(std::max<std::int64_t>(0, at_ns)) + 1; s < begins_.size(); ++s)
    at.highest[s] -= bytes;
}

std::int64_t MemoryHistory::level(std::size_t device, std::int64_t now_ns) {
  Device& at = devices_[device];
  for (; !at.returns.empty() && at.returns.top().at_ns <= now_ns; at.returns.pop())
    at.level -= at.returns.top().bytes;
  return at.level;
}

std::int64_t MemoryHistory::peak_since(std::size_t device, std::int64_t from_ns) const {
  const Device& at = devices_[device];
  const std::size_t first = std::min(begins_.size() - 1, span_of(std::max<std::int64_t>(0, from_ns)));
  return std::max(
      at.level, *std::max_element(at.highest.begin() + static_cast<std::ptrdiff_t>(first), at.highest.end()));
}

}  // namespace emplace
