#pragma once
/// How an actor follows a numbered log that another one keeps: in order, each entry once, never more on the
/// way than a window, and whatever was lost is asked for again.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace emplace::runtime {

/// The reader's side. Pure; one thread.
class LogFollower {
 public:
  /// Send the entries [from, until), as they come; without `again`, those that were not sent yet.
  struct Ask {
    std::uint64_t from = 1, until = 1;
    bool again = true;
    bool operator==(const Ask&) const = default;
  };

  /// `window`: entries on their way at once. `patience`: silence after which everything is asked for again.
  explicit LogFollower(std::uint64_t window = 64, Nanos patience = std::chrono::seconds{1})
      : window_{window}, patience_{patience} {}

  /// Begins, or begins anew, at `from`.
  Ask start(std::uint64_t from, Nanos now) {
    next_ = from;
    return ask(now, true);
  }
  /// An entry came. True: it is the next one, to be taken; false: a repeat, or one beyond a gap.
  bool take(std::uint64_t seq, Nanos now) {
    gap_ |= seq > next_;
    if (seq != next_) return false;
    heard_ = now;
    ++next_;
    return true;
  }
  /// Ask once per handled entry and from a timer: a gap was seen, half of the window is used up, or nothing
  /// came for the patience.
  std::optional<Ask> due(Nanos now) {
    // After a gap, what is on its way already is given time to come.
    const bool again = (gap_ && now - asked_ >= patience_ / 4) || now - std::max(heard_, asked_) >= patience_;
    if (!again && until_ - next_ > window_ / 2) return std::nullopt;
    return ask(now, again);
  }
  /// The number that is taken next.
  std::uint64_t next() const { return next_; }

 private:
  Ask ask(Nanos now, bool again) {
    until_ = next_ + window_;
    asked_ = now;
    gap_ &= !again;
    return {next_, until_, again};
  }

  std::uint64_t window_;
  Nanos patience_;
  std::uint64_t next_ = 1, until_ = 1;
  Nanos heard_{0}, asked_{0};
  bool gap_ = false;
};

/// The writer's account of one reader: what may be sent to it now. Pure; one thread.
struct LogCursor {
  std::uint64_t next = 1, until = 1;

  void asked(std::uint64_t from, std::uint64_t until_seq, bool again) {
    if (again) next = from;
    until = until_seq;
  }
  /// True if the reader may have one of the entries up to `last`.
  bool wants(std::uint64_t last) const { return next < until && next <= last; }
};

}  // namespace emplace::runtime
