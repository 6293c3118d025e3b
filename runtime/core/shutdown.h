#pragma once
/// Graceful shutdown of a node: actors stop, threads end, peers acknowledge that they have everything. At the
/// deadline the node ends regardless.

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
    kEndLoops,  ///< End every own loop.
    kSendBye,   ///< Send Bye to every peer that has not sent it.
    kGiveUp,    ///< The drain deadline passed; end anyway.
  };
  /// Progress of the drain.
  struct Progress {
    bool actors_stopped = false;   ///< Every actor had its on_stop, and no local message waits.
    bool loops_ended = false;      ///< Every own loop has ended, and no local message waits.
    bool peers_parted = false;     ///< Every peer has acknowledged, or is gone.
    bool head_left_first = false;  ///< The head sent Bye before this node did.
  };

  /// `drain`: time limit from start() to the end.
  explicit Shutdown(Nanos drain) : drain_{drain} {}

  /// Starts the shutdown. Returns true on the first call: the caller stops the actors. Keeps the first
  /// failure of all calls.
  bool start(std::string reason, std::optional<Error> failure, Nanos now) {
    if (failure) fail(*std::move(failure));
    if (phase_ != Phase::kRunning) return false;
    phase_ = Phase::kStoppingActors;
    reason_ = std::move(reason);
    deadline_ = now + drain_;
    return true;
  }
  /// Records a failure during shutdown.
  void fail(Error failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  /// Actions to carry out now, in order. Call once per turn after start().
  std::vector<Action> advance(const Progress& progress, Nanos now) {
    std::vector<Action> actions;
    if (phase_ == Phase::kStoppingActors && progress.actors_stopped) {
      phase_ = Phase::kEndingLoops;
      actions.push_back(Action::kEndLoops);
    }
    if (phase_ == Phase::kEndingLoops && progress.loops_ended) {
      phase_ = Phase::kParting;
      if (progress.head_left_first) linger_until_ = now + kAcknowledgementLeaves;
      actions.push_back(Action::kSendBye);
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
  /// Latest time of the next advance(); empty while the node runs.
  std::optional<Nanos> next() const {
    if (running()) return std::nullopt;
    return linger_until_ ? std::min(*linger_until_, deadline_) : deadline_;
  }
  /// Reason of the shutdown, or the first failure. @pre done().
  Result<std::string> outcome() const {
    if (failure_) return *failure_;
    return reason_;
  }

 private:
  enum class Phase : std::uint8_t { kRunning, kStoppingActors, kEndingLoops, kParting, kDone };
  // Time for our acknowledgement of the head's Bye to leave the socket, which does not linger.
  static constexpr std::chrono::milliseconds kAcknowledgementLeaves{50};

  Nanos drain_;
  Phase phase_ = Phase::kRunning;
  std::string reason_;
  std::optional<Error> failure_;
  Nanos deadline_{0};
  std::optional<Nanos> linger_until_;
};

}  // namespace emplace::runtime
