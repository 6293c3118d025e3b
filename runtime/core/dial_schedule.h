#pragma once
/// When a node dials its head again, and when it gives up.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/rng.h"

namespace emplace::runtime {

/// Delays between dials are random (full jitter), so that nodes that lost the same head do not all come back
/// at once. Their upper bound doubles with each dial that failed, from 0.1 s to 2 s.
/// Pure; one thread. Times never go back.
class DialSchedule {
 public:
  struct Options {
    Nanos patience{0};        ///< Silence of the head after which the node gives up.
    Nanos first_patience{0};  ///< The same until it has joined once; 0: `patience`.
  };

  /// The silence counts from `now`.
  DialSchedule(Options options, Rng jitter, Nanos now) : options_{options}, jitter_{jitter}, heard_{now} {}

  /// The head said something. To be refused does not count.
  void heard(Nanos now) { heard_ = now; }
  /// Both connections are up.
  void joined() {
    failures_ = 0;
    joined_once_ = true;
  }
  /// The connections failed: the next dial is scheduled. @pre !waiting().
  void failed(Nanos now) {
    const double longest_s =
        std::min(kLongest_s, kFirst_s * static_cast<double>(1u << std::min(failures_, 6u)));
    ++failures_;
    next_ = now + std::chrono::duration_cast<Nanos>(
                      std::chrono::duration<double>{jitter_.uniform_double() * longest_s});
  }
  /// True once when the scheduled dial is due.
  bool take_due(Nanos now) {
    if (!next_ || now < *next_) return false;
    next_.reset();
    return true;
  }
  /// The node itself did not run for this long, so it could not hear anything.
  void skip_own_pause(Nanos pause, Nanos now) { heard_ = std::min(now, heard_ + pause); }

  bool waiting() const { return next_.has_value(); }
  /// When the next dial is due; empty while connections are open.
  std::optional<Nanos> next() const { return next_; }
  bool joined_once() const { return joined_once_; }
  Nanos patience() const {
    return joined_once_ || options_.first_patience == Nanos{0} ? options_.patience : options_.first_patience;
  }
  /// True once the head was silent for longer than patience().
  bool gave_up(Nanos now) const { return now - heard_ > patience(); }

 private:
  static constexpr double kFirst_s = 0.1;
  static constexpr double kLongest_s = 2.0;
  Options options_;
  Rng jitter_;
  Nanos heard_;
  std::optional<Nanos> next_;
  std::uint32_t failures_ = 0;  // Dials since it last joined.
  bool joined_once_ = false;
};

}  // namespace emplace::runtime
