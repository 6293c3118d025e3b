#pragma once
/// Idle times of a device or copy engine before the end of its last task.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emplace {

/// Idle times in order. Gaps shorter than `shortest_ns` are dropped, and a search examines at most
/// `looked_at` gaps.
class IdleGaps {
 public:
  explicit IdleGaps(std::int64_t shortest_ns, std::size_t looked_at = SIZE_MAX)
      : shortest_ns_{std::max<std::int64_t>(1, shortest_ns)}, looked_at_{looked_at} {}

  /// Returns the earliest time >= `ready_ns` at which a task of `cost_ns` fits.
  std::int64_t start(std::int64_t ready_ns, std::int64_t cost_ns) const {
    if (ready_ns >= end_) return ready_ns;
    std::size_t left = looked_at_;
    for (auto gap = first_after(ready_ns); gap != gaps_.end() && left > 0; ++gap, --left) {
      const std::int64_t begin = std::max(gap->begin, ready_ns);
      if (begin + cost_ns <= gap->end) return begin;
    }
    return std::max(ready_ns, end_);
  }
  /// Occupies [begin, end). @pre `begin` is the result of start() for this length.
  void fill(std::int64_t begin, std::int64_t end) {
    if (begin >= end_) {
      if (begin - end_ >= shortest_ns_) gaps_.push_back({end_, begin});
      end_ = end;
      return;
    }
    const auto at = gaps_.begin() + (first_after(begin) - gaps_.cbegin());
    if (at == gaps_.end()) return;  // An empty task between two others.
    const Gap before{at->begin, begin}, after{end, at->end};
    const bool keep_before = before.end - before.begin >= shortest_ns_;
    const bool keep_after = after.end - after.begin >= shortest_ns_;
    if (keep_before && keep_after) {
      *at = before;
      gaps_.insert(at + 1, after);
    } else if (keep_before || keep_after) {
      *at = keep_before ? before : after;
    } else {
      gaps_.erase(at);
    }
  }
  std::int64_t end_ns() const { return end_; }

 private:
  struct Gap {
    std::int64_t begin, end;
  };
  std::vector<Gap>::const_iterator first_after(std::int64_t ns) const {
    return std::partition_point(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.end <= ns; });
  }

  std::int64_t shortest_ns_;
  std::size_t looked_at_;
  std::vector<Gap> gaps_;
  std::int64_t end_ = 0;
};

}  // namespace emplace
