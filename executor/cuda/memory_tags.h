#pragma once
/// Memory that was given back while streams may still work on it: who takes it next waits for them.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace emplace::cuda {

/// Of one device. Stretches are [begin, end) in bytes; users are instructions. Thread: one.
class MemoryTags {
 public:
  /// @pre no tag overlaps [begin, end): take() came first.
  void give(std::int64_t begin, std::int64_t end, std::vector<std::uint32_t> users) {
    if (begin < end) tags_.emplace(begin, Tag{end, std::move(users)});
  }
  /// Appends the users of whatever overlaps [begin, end), and forgets the overlap.
  void take(std::int64_t begin, std::int64_t end, std::vector<std::uint32_t>& users) {
    auto at = tags_.lower_bound(begin);
    if (at != tags_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != tags_.end() && at->first < end) {
      const std::int64_t from = at->first;
      Tag tag = std::move(at->second);
      at = tags_.erase(at);
      users.insert(users.end(), tag.users.begin(), tag.users.end());
      if (from < begin) tags_.emplace(from, Tag{begin, tag.users});
      if (tag.end > end) tags_.emplace(end, Tag{tag.end, std::move(tag.users)});
    }
  }

 private:
  struct Tag {
    std::int64_t end;
    std::vector<std::uint32_t> users;
  };
  std::map<std::int64_t, Tag> tags_;  // By begin; disjoint.
};

}  // namespace emplace::cuda
