#pragma once
/// Limits on restarts and delays before them, and epochs of incarnations.

#include <algorithm>
#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "base/rng.h"

namespace emplace::runtime {

/// Epoch of the next incarnation: greater than `before` and than every epoch taken earlier on this machine.
inline std::uint64_t next_epoch(std::uint64_t before, Nanos now) {
  return std::max(before + 1, static_cast<std::uint64_t>(std::max(now, Nanos{0}).count()));
}

/// `first`, doubled `times` times, but not above `longest`.
inline Nanos doubled(Nanos first, int times, Nanos longest) {
  for (; times > 0 && first < longest; --times) first *= 2;
  return std::min(first, longest);
}
/// Less than `longest` by up to half of it, so that what failed together does not return together.
inline Nanos jittered(Nanos longest, Rng& jitter) {
  return longest - std::chrono::duration_cast<Nanos>(longest * (0.5 * jitter.uniform_double()));
}

/// Allows at most `limit` restarts in any `period`. Pure; one thread.
class RestartLimiter {
 public:
  explicit RestartLimiter(int limit, Nanos period = std::chrono::minutes{1})
      : limit_{limit}, period_{period} {}
  /// Counts a restart at `now` (never earlier than the previous call). Returns false if the limit is reached.
  bool allow(Nanos now) {
    while (!recent_.empty() && recent_.front() + period_ <= now) recent_.pop_front();
    if (static_cast<int>(recent_.size()) >= limit_) return false;
    recent_.push_back(now);
    return true;
  }
  int recent() const { return static_cast<int>(recent_.size()); }

 private:
  int limit_;
  Nanos period_;
  std::deque<Nanos> recent_;
};

}  // namespace emplace::runtime
