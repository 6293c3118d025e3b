#include "executor/plan/arena.h"

#include <algorithm>

#include "base/check.h"

namespace emplace {

Arena::Arena(std::int64_t cap, std::int64_t alignment)
    : cap_{cap / alignment * alignment}, alignment_{alignment} {
  EMPLACE_CHECK(cap >= 0 && alignment >= 1, "an arena needs a capacity >= 0 and an alignment >= 1");
  clear();
}

void Arena::clear() {
  free_.clear();
  by_size_.clear();
  used_ = peak_ = 0;
  if (cap_ > 0) insert_free(0, cap_);
}

std::int64_t Arena::rounded(std::int64_t bytes) const {
  return (bytes + alignment_ - 1) / alignment_ * alignment_;
}

std::int64_t Arena::largest_free() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

std::optional<std::int64_t> Arena::take(std::int64_t bytes) {
  if (bytes == 0) return 0;
  const std::int64_t size = rounded(bytes);
  const auto fit = by_size_.lower_bound({size, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [free_size, offset] = *fit;
  erase_free(free_.find(offset));
  if (free_size > size) insert_free(offset + size, free_size - size);
  used_ += size;
  peak_ = std::max(peak_, used_);
  return offset;
}

void Arena::give(std::int64_t offset, std::int64_t bytes) {
  if (bytes == 0) return;
  std::int64_t size = rounded(bytes);
  used_ -= size;
  EMPLACE_CHECK(used_ >= 0, "more bytes released than allocated");
  const auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    erase_free(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    EMPLACE_CHECK(before->first + before->second <= offset, "double release");
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      erase_free(before);
    }
  }
  insert_free(offset, size);
}

void Arena::insert_free(std::int64_t offset, std::int64_t size) {
  free_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void Arena::erase_free(std::map<std::int64_t, std::int64_t>::iterator at) {
  by_size_.erase({at->second, at->first});
  free_.erase(at);
}

}  // namespace emplace
