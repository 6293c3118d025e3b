#pragma once
/// Session with one peer node: its incarnation, message order and time of the last message.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/mark.h"

namespace emplace::runtime {

/// Pure; one thread.
class Session {
 public:
  enum class Hello : std::uint8_t { kNew, kSame, kFenced };
  enum class Order : std::uint8_t { kNext, kGap, kRepeat };
  static constexpr std::size_t kPlanes = 2;

  /// `timeout`: silence after which the peer is lost (three heartbeats).
  explicit Session(Nanos timeout) : timeout_{timeout} {}

  /// Starts a session with the incarnation `epoch`. A replaced incarnation stays fenced: kFenced.
  Hello on_hello(std::uint64_t epoch, Nanos now) {
    if (std::find(past_.begin(), past_.end(), epoch) != past_.end()) {
      EMPLACE_MARK("session.fenced");
      return Hello::kFenced;
    }
    if (open_ && epoch == epoch_) {
      EMPLACE_MARK("session.same_again");
      return received_ = now, Hello::kSame;
    }
    if (open_) EMPLACE_MARK("session.replaced");
    end();
    open_ = true;
    epoch_ = epoch;
    received_ = now;
    next_ = {1, 1};
    return Hello::kNew;
  }
  /// Sets the next sequence number of a plane: messages queued while the peer was away keep their numbers.
  void expect(std::size_t plane, std::uint64_t first_seq) { next_[plane] = first_seq; }
  /// Checks the order of a message. kGap: missing() messages were lost; kRepeat: drop it.
  Order on_message(std::size_t plane, std::uint64_t seq, Nanos now) {
    received_ = now;
    missing_ = 0;
    if (seq < next_[plane]) {
      EMPLACE_MARK("session.repeat");
      return Order::kRepeat;
    }
    missing_ = seq - next_[plane];
    next_[plane] = seq + 1;
    if (missing_ > 0) EMPLACE_MARK("session.gap");
    return missing_ == 0 ? Order::kNext : Order::kGap;
  }
  void on_received(Nanos now) { received_ = now; }
  /// Whether the silence exceeds the timeout.
  bool lost(Nanos now) const {
    if (!open_ || now - received_ <= timeout_) return false;
    EMPLACE_MARK("session.lost");
    return true;
  }
  /// Ends the session and fences its epoch.
  void end() {
    if (!open_) return;
    open_ = false;
    if (past_.size() == kRemembered) past_.erase(past_.begin());
    past_.push_back(epoch_);
  }

  bool open() const { return open_; }
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t missing() const { return missing_; }

 private:
  // Fenced epochs; older incarnations have no connection left.
  static constexpr std::size_t kRemembered = 64;
  Nanos timeout_;
  bool open_ = false;
  std::uint64_t epoch_ = 0;
  Nanos received_{0};
  std::array<std::uint64_t, kPlanes> next_{1, 1};
  std::uint64_t missing_ = 0;
  std::vector<std::uint64_t> past_;
};

}  // namespace emplace::runtime
