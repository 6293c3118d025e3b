#pragma once
/// Backpressure: how much more may be sent to one consumer, in items and bytes.

#include <algorithm>
#include <cstdint>

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

  /// The consumer allows this much more.
  void grant(Credit more) {
    left_.items = std::clamp<std::int64_t>(left_.items + std::max<std::int64_t>(more.items, 0), 0,
                                           std::max<std::int64_t>(window_.items - in_flight_.items, 0));
    left_.bytes = std::clamp<std::int64_t>(left_.bytes + std::max<std::int64_t>(more.bytes, 0), 0,
                                           std::max<std::int64_t>(window_.bytes - in_flight_.bytes, 0));
  }
  /// True, and they are in flight, if credit covers them.
  bool take(Credit wanted) {
    const bool alone = in_flight_.items == 0;
    if (wanted.items > left_.items || (wanted.bytes > left_.bytes && !alone)) return false;
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
  Credit window_;
  Credit left_;
  Credit in_flight_;
};

}  // namespace emplace::runtime
