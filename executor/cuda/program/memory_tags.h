#pragma once
/// Released memory that streams may still use: its next user must wait for them.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace emplace::cuda {

/// Tags of one device. Ranges are [begin, end) in bytes; users are instructions. Thread: one.
class MemoryTags {
 public:
  /// Tags a released range with its users. @pre no tag overlaps [begin, end): take() was called first.
  void give(std::int64_t begin, std::int64_t end, std::vector<std::uint32_t> users) {
    if (begin < end) tags_.emplace(begin, Tag{end, std::move(users)});
  }
  /// Appends the users of all tags that overlap [begin, end), and removes the overlap.
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
  std::map<std::int64_t, Tag> tags_;  // Disjoint ranges by start.
};

}  // namespace emplace::cuda
