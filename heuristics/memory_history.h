#pragma once
/// How full each device was, and when: what a copy that is decided late does to the past.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace emplace {

/// Levels of several devices along one clock, kept as the highest of each of 256 spans of equally many ops.
/// Copies begin when their tensor is made, long before a schedule places who reads them: so memory can be
/// taken, and given back, from a moment in the past on. Thread: one.
class MemoryHistory {
 public:
  MemoryHistory(std::size_t devices, std::size_t ops);

  /// One more op was placed, which begins at `now_ns`.
  void tick(std::int64_t now_ns);
  void take(std::size_t device, std::int64_t bytes, std::int64_t from_ns);
  void give_back(std::size_t device, std::int64_t bytes, std::int64_t at_ns);
  /// Bytes in use at `now_ns`, which never goes back for long: what is given back until then is forgotten.
  std::int64_t level(std::size_t device, std::int64_t now_ns);
  /// The highest level from then on, up to now.
  std::int64_t peak_since(std::size_t device, std::int64_t from_ns) const;

 private:
  static constexpr std::size_t kSpans = 256;
  struct Return {
    std::int64_t at_ns, bytes;
    bool operator>(const Return& other) const { return at_ns > other.at_ns; }
  };
  struct Device {
    std::int64_t level = 0;
    std::vector<std::int64_t> highest;                                         // [spans] so far
    std::priority_queue<Return, std::vector<Return>, std::greater<>> returns;  // Still to come.
  };
  std::size_t span_of(std::int64_t ns) const {
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), ns) - begins_.begin()) -
           1;
  }

  const std::size_t ops_per_span_;
  std::size_t ticks_ = 0;
  std::vector<std::int64_t> begins_{0};  // [spans] when each began; the last is now.
  std::vector<Device> devices_;
};

}  // namespace emplace
