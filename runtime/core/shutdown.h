#pragma once
/// The order in which a node drains and ends: its actors stop, its threads end, the other nodes acknowledge
/// that they have everything; at the deadline it ends all the same.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace emplace::runtime {

/// Pure; one thread. Times never go back.
class Shutdown {
 public:
  enum class Action : std::uint8_t {
    kEndLoops,  ///< Tell every own loop to end.
    kSayBye,    ///< Say Bye to every other node that has not said it.
    kGiveUp,    ///< Not everything was drained in time; the node ends all the same.
  };
  /// How far the node is.
  struct Progress {
    bool actors_stopped = false;   ///< All have had their on_stop, and no local message waits.
    bool loops_ended = false;      ///< Every own loop has said its last word, and no local message waits.
    bool peers_parted = false;     ///< Every other node has acknowledged, or is gone.
    bool head_left_first = false;  ///< The head said Bye before this node did.
  };

  /// `drain`: from begin() to the end, at the most.
  explicit Shutdown(Nanos drain) : drain_{drain} {}

  /// True: this call begins it; the caller stops the actors. False: it has begun already. The first failure
  /// of all calls is kept.
  bool begin(std::string reason, std::optional<Error> failure, Nanos now) {
    if (failure) fail(*std::move(failure));
    if (phase_ != Phase::kRunning) return false;
    phase_ = Phase::kStoppingActors;
    reason_ = std::move(reason);
    deadline_ = now + drain_;
    return true;
  }
  /// A failure of the end itself.
  void fail(Error failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  /// What to do now, in this order. Call it once per turn after begin().
  std::vector<Action> advance(const Progress& progress, Nanos now) {
    std::vector<Action> actions;
    if (phase_ == Phase::kStoppingActors && progress.actors_stopped) {
      phase_ = Phase::kEndingLoops;
      actions.push_back(Action::kEndLoops);
    }
    if (phase_ == Phase::kEndingLoops && progress.loops_ended) {
      phase_ = Phase::kParting;
      if (progress.head_left_first) linger_until_ = now + kAcknowledgementLeaves;
      actions.push_back(Action::kSayBye);
    }
    if (linger_until_ && now >= *linger_until_) linger_until_.reset();
    if (phase_ == Phase::kParting && progress.peers_parted && !linger_until_) phase_ = Phase::kDone;
    if (!running() && !done() && now >= deadline_) {
      phase_ = Phase::kDone;
      actions.push_back(Action::kGiveUp);
    }
    return actions;
  }

  bool running() const { return phase_ == Phase::kRunning; }
  bool done() const { return phase_ == Phase::kDone; }
  bool failed() const { return failure_.has_value(); }
  const std::string& reason() const { return reason_; }
  /// When advance() must be called at the latest; empty while the node runs.
  std::optional<Nanos> next() const {
    if (running()) return std::nullopt;
    return linger_until_ ? std::min(*linger_until_, deadline_) : deadline_;
  }
  /// The reason that began it, or the first failure. @pre done().
  Result<std::string> outcome() const {
    if (failure_) return *failure_;
    return reason_;
  }

 private:
  enum class Phase : std::uint8_t { kRunning, kStoppingActors, kEndingLoops, kParting, kDone };
  // For our acknowledgement of the head's Bye to leave the socket, which does not linger.
  static constexpr std::chrono::milliseconds kAcknowledgementLeaves{50};

  Nanos drain_;
  Phase phase_ = Phase::kRunning;
  std::string reason_;
  std::optional<Error> failure_;
  Nanos deadline_{0};
  std::optional<Nanos> linger_until_;
};

}  // namespace emplace::runtime
