#pragma once
/// Supervision of one child process that evaluates: start, deadlines, termination, retry and giving up. Pure
/// rules: the owner of the process reports events and carries out actions
/// (launcher/worker/process_executor.h).

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "runtime/core/restart.h"

namespace emplace::runtime {

struct ChildSupervisorOptions {
  /// Lower bound of the deadline for progress of an evaluation.
  Nanos least_deadline = std::chrono::seconds{30};
  int times_best = 10;  ///< The deadline is at least this multiple of the fastest evaluation.
  Nanos ready_deadline = std::chrono::minutes{2};  ///< Deadline for progress until the process is ready.
  /// Longest time without a heartbeat: the process is stopped or stuck.
  Nanos silence = std::chrono::seconds{10};
  Nanos silence_at_start{0};              ///< The same until the process is ready, if it is longer.
  Nanos grace = std::chrono::seconds{2};  ///< Delay from SIGTERM to SIGKILL.
  int restarts_per_minute = 5;            ///< Restarts allowed per minute; one more gives up.
  int tries = 2;                          ///< Processes that one evaluation may cost before it fails.
  /// Backoff before the first restart; doubled by each process that was never ready.
  Nanos first_delay = std::chrono::milliseconds{50};
  /// Upper bound of the backoff. Jitter subtracts up to half.
  Nanos longest_delay = std::chrono::seconds{5};
  std::uint64_t seed = 1;  ///< Seed of the jitter.
};

/// Pure; one thread. Times never go back.
class ChildSupervisor {
 public:
  // Events.
  struct Requested {         ///< An evaluation is requested. @pre none is under way.
    Nanos step_deadline{0};  ///< Deadline for one step of it, if longer than that of the options.
  };
  struct Ready {};
  struct Refused {  ///< The process cannot do this work, and no other one could.
    std::string why;
  };
  struct Completed {  ///< The evaluation is done.
    bool ran = true;  ///< False: refused early; its duration is not a measurement.
  };
  struct Heartbeat {
    std::uint64_t progress = 0;
  };
  struct Exited {  ///< The process was reaped, after its output was handled.
    std::string cause;
  };
  struct Tick {};
  using Event = std::variant<Requested, Ready, Refused, Completed, Heartbeat, Exited, Tick>;

  // Actions.
  struct Launch {};
  struct Send {};       ///< Send the evaluation to the ready process.
  struct Terminate {};  ///< Send SIGTERM.
  struct Kill {};       ///< Send SIGKILL.
  struct Fail {         ///< Report the evaluation as failed.
    std::string cause;
  };
  struct GiveUp {  ///< Stop for good: no more processes or evaluations.
    std::string why;
  };
  using Action = std::variant<Launch, Send, Terminate, Kill, Fail, GiveUp>;

  explicit ChildSupervisor(ChildSupervisorOptions options)
      : options_{options},
        limiter_{options.restarts_per_minute},
        jitter_{options.seed, Purpose::kJitter, 1} {}

  std::vector<Action> on(const Event& event, Nanos now) {
    std::vector<Action> actions;
    std::visit([&](const auto& what) { handle(what, now, actions); }, event);
    return actions;
  }

  /// Time of the next Tick; empty if nothing is awaited.
  std::optional<Nanos> next() const {
    switch (phase_) {
      case Phase::kStarting:
        return std::min(progressed_ + options_.ready_deadline, last_received_ + silence());
      case Phase::kBusy:
        return std::min(progressed_ + deadline(), last_received_ + options_.silence);
      case Phase::kEnding:
      case Phase::kWaiting:
        return at_;
      default:
        return std::nullopt;
    }
  }
  /// Time that an evaluation may take without progress.
  Nanos deadline() const {
    const Nanos least = std::max(options_.least_deadline, step_deadline_);
    return fastest_ ? std::max(least, options_.times_best * *fastest_) : least;
  }
  bool gave_up() const { return phase_ == Phase::kGivenUp; }
  int restarts() const { return restarts_; }

 private:
  enum class Phase : std::uint8_t {
    kNotStarted,
    kStarting,
    kIdle,
    kBusy,
    kEnding,   ///< Terminated; killed at at_.
    kKilled,   ///< Killed; waits for Exited.
    kWaiting,  ///< Dead; the next process starts at at_.
    kGivenUp
  };

  void handle(const Requested& asked, Nanos now, std::vector<Action>& actions) {
    wanted_ = true;
    step_deadline_ = asked.step_deadline;
    tries_ = 0;
    if (phase_ == Phase::kNotStarted) start(now, actions);
    if (phase_ == Phase::kIdle) send(now, actions);
    if (phase_ == Phase::kGivenUp) actions.push_back(GiveUp{given_up_});
  }

  void handle(const Ready&, Nanos now, std::vector<Action>& actions) {
    if (phase_ != Phase::kStarting) return;
    failed_starts_ = 0;
    phase_ = Phase::kIdle;
    last_received_ = now;
    if (wanted_) send(now, actions);
  }

  void handle(const Refused& refused, Nanos, std::vector<Action>& actions) {
    if (phase_ == Phase::kStarting) give_up(refused.why, actions);
  }

  void handle(const Completed& answered, Nanos now, std::vector<Action>&) {
    // A result counts even if the process was already being terminated.
    if (!wanted_ || (phase_ != Phase::kBusy && phase_ != Phase::kEnding && phase_ != Phase::kKilled)) return;
    wanted_ = evaluating_ = false;
    if (phase_ != Phase::kBusy) return;
    if (answered.ran) fastest_ = std::min(fastest_.value_or(Nanos::max()), now - started_);
    phase_ = Phase::kIdle;
  }

  void handle(const Heartbeat& beat, Nanos now, std::vector<Action>&) {
    last_received_ = now;
    if (beat.progress == progress_) return;
    progress_ = beat.progress;
    progressed_ = now;
  }

  void handle(const Exited& died, Nanos now, std::vector<Action>& actions) {
    if (phase_ == Phase::kGivenUp || phase_ == Phase::kNotStarted || phase_ == Phase::kWaiting) return;
    const std::string cause = cause_.empty() ? died.cause : cause_;
    const bool at_work = evaluating_;
    evaluating_ = false;
    cause_.clear();
    ++failed_starts_;
    // The placement is not to blame for a process that died before it was ready.
    if (wanted_ && at_work && ++tries_ >= options_.tries) {
      wanted_ = false;
      actions.push_back(Fail{cause});
    }
    if (!limiter_.allow(now)) {
      return give_up(
          fmt::format("ended {} times within a minute, the last time: {}", limiter_.recent() + 1, cause),
          actions);
    }
    phase_ = Phase::kWaiting;
    at_ = now + jittered(doubled(options_.first_delay, failed_starts_ - 1, options_.longest_delay), jitter_);
  }

  void handle(const Tick&, Nanos now, std::vector<Action>& actions) {
    const auto due = next();
    if (!due || now < *due) return;
    switch (phase_) {
      case Phase::kStarting:
        return end(now < last_received_ + silence() ? "timeout: not ready after " + seconds(now - progressed_)
                                                    : silent(now),
                   now, actions);
      case Phase::kBusy:
        return end(now < last_received_ + options_.silence
                       ? "timeout: no progress for " + seconds(now - progressed_)
                       : silent(now),
                   now, actions);
      case Phase::kEnding:
        phase_ = Phase::kKilled;
        actions.push_back(Kill{});
        return;
      case Phase::kWaiting:
        ++restarts_;
        return start(now, actions);
      default:
        return;
    }
  }

  void start(Nanos now, std::vector<Action>& actions) {
    phase_ = Phase::kStarting;
    progress_ = 0;
    progressed_ = last_received_ = now;
    actions.push_back(Launch{});
  }

  void send(Nanos now, std::vector<Action>& actions) {
    phase_ = Phase::kBusy;
    evaluating_ = true;
    started_ = progressed_ = last_received_ = now;
    actions.push_back(Send{});
  }

  void end(std::string cause, Nanos now, std::vector<Action>& actions) {
    cause_ = std::move(cause);
    phase_ = Phase::kEnding;
    at_ = now + options_.grace;
    actions.push_back(Terminate{});
  }

  void give_up(const std::string& why, std::vector<Action>& actions) {
    phase_ = Phase::kGivenUp;
    given_up_ = why;
    if (std::exchange(wanted_, false)) actions.push_back(GiveUp{why});
  }

  /// Longest time without a heartbeat, in this phase.
  Nanos silence() const {
    return phase_ == Phase::kStarting ? std::max(options_.silence, options_.silence_at_start)
                                      : options_.silence;
  }
  std::string silent(Nanos now) const { return "timeout: no heartbeat for " + seconds(now - last_received_); }
  static std::string seconds(Nanos time) {
    const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
    return fmt::format("{}.{} s", tenths / 10, tenths % 10);
  }

  const ChildSupervisorOptions options_;
  RestartLimiter limiter_;
  Rng jitter_;
  Phase phase_ = Phase::kNotStarted;
  bool wanted_ = false;      ///< An evaluation is under way, whatever became of its process.
  bool evaluating_ = false;  ///< The current process has the evaluation.
  int tries_ = 0;            ///< Processes that this evaluation has cost.
  int failed_starts_ = 0;    ///< Processes in a row that were never ready.
  int restarts_ = 0;
  std::uint64_t progress_ = 0;
  Nanos step_deadline_{0}, started_{0}, progressed_{0}, last_received_{0}, at_{0};
  std::optional<Nanos> fastest_;
  std::string cause_;  ///< Why the process was terminated.
  std::string given_up_;
};

}  // namespace emplace::runtime
