#pragma once
/// Memory in use over time per device, including changes in the past caused by copies that are issued late.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace emplace {

/// Levels of several devices over a common clock, stored as the maximum of each of 256 spans with equal
/// numbers of ops. A copy starts when its tensor exists, long before its reader is scheduled, so memory can
/// be taken and released from a time in the past on. Thread: one.
class MemoryHistory {
 public:
  MemoryHistory(std::size_t devices, std::size_t ops);

  /// Advances the clock: one more op was placed, starting at `now_ns`.
  void tick(std::int64_t now_ns);
  void take(std::size_t device, std::int64_t bytes, std::int64_t from_ns);
  void give_back(std::size_t device, std::int64_t bytes, std::int64_t at_ns);
  /// Bytes in use at `now_ns`. `now_ns` should not decrease by much: releases up to it are applied for good.
  std::int64_t level(std::size_t device, std::int64_t now_ns);
  /// Highest level from `from_ns` to now.
  std::int64_t peak_since(std::size_t device, std::int64_t from_ns) const;

 private:
  static constexpr std::size_t kSpans = 256;
  struct Return {
    std::int64_t at_ns, bytes;
    bool operator>(const Return& other) const { return at_ns > other.at_ns; }
  };
  struct Device {
    std::int64_t level = 0;
    std::vector<std::int64_t> highest;                                         // [spans] So far.
    std::priority_queue<Return, std::vector<Return>, std::greater<>> returns;  // Future releases.
  };
  std::size_t span_of(std::int64_t ns) const {
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), ns) - begins_.begin()) -
           1;
  }

  const std::size_t ops_per_span_;
  std::size_t ticks_ = 0;
  std::vector<std::int64_t> begins_{0};  // [spans] Start time of each span; the last one is current.
  std::vector<Device> devices_;
};

}  // namespace emplace
