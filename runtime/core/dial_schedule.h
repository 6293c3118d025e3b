#pragma once
/// When a node redials its head, and when it gives up.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/rng.h"

namespace emplace::runtime {

/// Exponential backoff with full jitter, so that nodes that lost the same head do not return at once. The
/// upper bound doubles with each failed dial, from 0.1 s to 2 s. Pure; one thread. Times never go back.
class DialSchedule {
 public:
  struct Options {
    Nanos timeout{0};        ///< Silence of the head after which the node gives up.
    Nanos first_timeout{0};  ///< Timeout before the first join; 0: `timeout`.
  };

  /// The silence of the head counts from `now`.
  DialSchedule(Options options, Rng jitter, Nanos now) : options_{options}, jitter_{jitter}, received_{now} {}

  /// Call on any message from the head, except a refusal.
  void received(Nanos now) { received_ = now; }
  /// Call when both connections are up.
  void joined() {
    failures_ = 0;
    joined_once_ = true;
  }
  /// Schedules the next dial after the connections failed. @pre !waiting().
  void failed(Nanos now) {
    const double longest_s =
        std::min(kLongest_s, kFirst_s * static_cast<double>(1u << std::min(failures_, 6u)));
    ++failures_;
    next_ = now + std::chrono::duration_cast<Nanos>(
                      std::chrono::duration<double>{jitter_.uniform_double() * longest_s});
  }
  /// Returns true once when the scheduled dial is due.
  bool take_due(Nanos now) {
    if (!next_ || now < *next_) return false;
    next_.reset();
    return true;
  }
  /// Excludes a pause of this node from the silence: it could not receive anything.
  void skip_own_pause(Nanos pause, Nanos now) { received_ = std::min(now, received_ + pause); }

  bool waiting() const { return next_.has_value(); }
  /// Time of the next dial; empty while connections are open.
  std::optional<Nanos> next() const { return next_; }
  bool joined_once() const { return joined_once_; }
  Nanos timeout() const {
    return joined_once_ || options_.first_timeout == Nanos{0} ? options_.timeout : options_.first_timeout;
  }
  /// Whether the head was silent for longer than timeout().
  bool gave_up(Nanos now) const { return now - received_ > timeout(); }

 private:
  static constexpr double kFirst_s = 0.1;
  static constexpr double kLongest_s = 2.0;
  Options options_;
  Rng jitter_;
  Nanos received_;
  std::optional<Nanos> next_;
  std::uint32_t failures_ = 0;  // Failed dials since the last join.
  bool joined_once_ = false;
};

}  // namespace emplace::runtime
