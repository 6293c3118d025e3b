#pragma once
/// Backpressure: how much more may be sent to one consumer, in items and bytes.

#include <algorithm>
#include <cstdint>

#include "base/mark.h"

namespace emplace::runtime {

struct Credit {
  std::int64_t items = 0;
  std::int64_t bytes = 0;
  bool operator==(const Credit&) const = default;
};

/// The sender's account with one consumer. Never negative, never above the window: what a repeated or hostile
/// grant adds beyond it is ignored. One item may exceed the bytes left only when nothing is in flight, so
/// that an item larger than the window still travels, alone. Pure; one thread.
class CreditAccount {
 public:
  /// `window`: the most that may ever be in flight.
  explicit CreditAccount(Credit window) : window_{window} {}

  /// The consumer allows this much more; whatever number it says.
  void grant(Credit more) {
    left_.items = raised(left_.items, more.items, window_.items, in_flight_.items);
    left_.bytes = raised(left_.bytes, more.bytes, window_.bytes, in_flight_.bytes);
  }
  /// True, and they are in flight, if credit covers them.
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
  /// The result of some of it arrived: no longer in flight. `returned` gives the credit back at once.
  void finish(Credit done, bool returned = true) {
    in_flight_.items = std::max<std::int64_t>(in_flight_.items - done.items, 0);
    in_flight_.bytes = std::max<std::int64_t>(in_flight_.bytes - done.bytes, 0);
    if (returned) grant(done);
  }
  /// How many items could be sent now.
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
