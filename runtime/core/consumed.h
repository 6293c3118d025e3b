#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace emplace::runtime {

/// Set of consumed placement ids, as disjoint intervals: the ids of a run are nearly dense, so few are
/// needed. Pure; one thread.
class Consumed {
 public:
  /// Consumes the ids [first, first + count). Returns up to `most` of them that were consumed before.
  std::vector<std::uint64_t> add(std::uint64_t first, std::uint64_t count, std::size_t most = 1024) {
    std::vector<std::uint64_t> twice;
    std::uint64_t begin = first, end = first + count;
    auto at = intervals_.upper_bound(begin);
    if (at != intervals_.begin() && std::prev(at)->second >= begin) --at;
    // Merge every interval that overlaps or touches the new one.
    while (at != intervals_.end() && at->first <= end) {
      const std::uint64_t last = std::min(at->second, first + count);
      for (std::uint64_t id = std::max(at->first, first); id < last && twice.size() < most; ++id)
        twice.push_back(id);
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = intervals_.erase(at);
    }
    if (begin < end) intervals_.emplace(begin, end);
    return twice;
  }
  std::size_t intervals() const { return intervals_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> intervals_;  // First to last + 1; intervals do not touch.
};

}  // namespace emplace::runtime
