#pragma once
/// How an actor follows a numbered log kept by another actor: in order, each entry once, at most a window in
/// flight, with a retry of lost entries.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace emplace::runtime {

/// Reader's side. Pure; one thread.
class LogFollower {
 public:
  /// Request for the entries [from, until) as they appear; without `again`, only those not sent yet.
  struct Ask {
    std::uint64_t from = 1, until = 1;
    bool again = true;
    bool operator==(const Ask&) const = default;
  };

  /// `window`: entries in flight at once. `timeout`: silence after which all missing entries are requested
  /// again.
  explicit LogFollower(std::uint64_t window = 64, Nanos timeout = std::chrono::seconds{1})
      : window_{window}, timeout_{timeout} {}

  /// Starts (or restarts) at `from`.
  Ask start(std::uint64_t from, Nanos now) {
    next_ = from;
    return ask(now, true);
  }
  /// Handles an entry. Returns true if it is the next one; false for a repeat or an entry beyond a gap.
  bool take(std::uint64_t seq, Nanos now) {
    gap_ |= seq > next_;
    if (seq != next_) return false;
    received_ = now;
    ++next_;
    return true;
  }
  /// Returns the request to send now, if any: after a gap, with half of the window used up, or after a
  /// timeout. Call it after each entry and from a timer.
  std::optional<Ask> due(Nanos now) {
    // After a gap, wait for entries already in flight.
    const bool again =
        (gap_ && now - asked_ >= timeout_ / 4) || now - std::max(received_, asked_) >= timeout_;
    if (!again && until_ - next_ > window_ / 2) return std::nullopt;
    return ask(now, again);
  }
  /// Sequence number of the next entry.
  std::uint64_t next() const { return next_; }

 private:
  Ask ask(Nanos now, bool again) {
    until_ = next_ + window_;
    asked_ = now;
    gap_ &= !again;
    return {next_, until_, again};
  }

  std::uint64_t window_;
  Nanos timeout_;
  std::uint64_t next_ = 1, until_ = 1;
  Nanos received_{0}, asked_{0};
  bool gap_ = false;
};

/// Writer's account of one reader: the entries that may be sent to it. Pure; one thread.
struct LogCursor {
  std::uint64_t next = 1, until = 1;

  void asked(std::uint64_t from, std::uint64_t until_seq, bool again) {
    if (again) next = from;
    until = until_seq;
  }
  /// Whether the reader may get one of the entries up to `last`.
  bool wants(std::uint64_t last) const { return next < until && next <= last; }
};

}  // namespace emplace::runtime
