#pragma once
/// Flow control: items and bytes that may still be sent to one consumer.

#include <algorithm>
#include <cstdint>

#include "base/mark.h"

namespace emplace::runtime {

struct Credit {
  std::int64_t items = 0;
  std::int64_t bytes = 0;
  bool operator==(const Credit&) const = default;
};

/// Sender's account with one consumer. Stays within [0, window]: repeated or hostile grants beyond the window
/// are ignored. An item larger than the window is sent only while nothing else is in flight. Pure; one
/// thread.
class CreditAccount {
 public:
  /// `window`: upper limit of what is in flight.
  explicit CreditAccount(Credit window) : window_{window} {}

  /// Adds credit granted by the consumer; clamped to the window.
  void grant(Credit more) {
    left_.items = raised(left_.items, more.items, window_.items, in_flight_.items);
    left_.bytes = raised(left_.bytes, more.bytes, window_.bytes, in_flight_.bytes);
  }
  /// Moves `wanted` from credit to in flight. Returns false if credit does not cover it.
  bool take(Credit wanted) {
    const bool alone = in_flight_.items == 0;
    if (wanted.items > left_.items || (wanted.bytes > left_.bytes && !alone)) {
      EMPLACE_MARK("credit.refused");
      return false;
    }
    if (wanted.bytes > left_.bytes) EMPLACE_MARK("credit.larger_than_window");
    left_.items -= wanted.items;
    left_.bytes = std::max<std::int64_t>(left_.bytes - wanted.bytes, 0);
    in_flight_.items += wanted.items;
    in_flight_.bytes += wanted.bytes;
    return true;
  }
  /// Ends `done` in flight when its result arrived. `returned`: also restore the credit.
  void finish(Credit done, bool returned = true) {
    in_flight_.items = std::max<std::int64_t>(in_flight_.items - done.items, 0);
    in_flight_.bytes = std::max<std::int64_t>(in_flight_.bytes - done.bytes, 0);
    if (returned) grant(done);
  }
  /// Items that can be sent now.
  std::int64_t items() const { return left_.items; }
  Credit left() const { return left_; }
  Credit in_flight() const { return in_flight_; }

 private:
  static std::int64_t raised(std::int64_t left, std::int64_t more, std::int64_t window,
                             std::int64_t in_flight) {
    return std::clamp<std::int64_t>(left + std::clamp<std::int64_t>(more, 0, window), 0,
                                    std::max<std::int64_t>(window - in_flight, 0));
  }
  Credit window_;
  Credit left_;
  Credit in_flight_;
};

}  // namespace emplace::runtime
