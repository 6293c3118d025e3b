#pragma once
/// How one child process that evaluates is looked after: when it is started, how long an evaluation may go on
/// without a sign, who is told to end, what is tried again and when to give up. Rules only: whoever owns the
/// process tells what happened and does what is asked (launcher/worker/process_executor.h).

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
  Nanos least_deadline = std::chrono::seconds{30};  ///< An evaluation may go on for so long without progress,
  int times_best = 10;                             ///< or for so many times the fastest one, if that is more.
  Nanos ready_deadline = std::chrono::minutes{2};  ///< Without progress until it is ready.
  Nanos silence = std::chrono::seconds{10};  ///< Without a heartbeat: it is stopped, or stuck as a whole.
  Nanos grace = std::chrono::seconds{2};     ///< From SIGTERM to SIGKILL.
  int restarts_per_minute = 5;               ///< One more gives up.
  int tries = 2;                             ///< Of an evaluation that its process did not survive.
  Nanos first_delay = std::chrono::milliseconds{50};  ///< Before a restart; doubled by each life that was
  Nanos longest_delay = std::chrono::seconds{5};  ///< never ready, up to this. Jitter takes up to half off.
  std::uint64_t seed = 1;                         ///< Of the jitter.
};

/// Pure; one thread. Times never go back.
class ChildSupervisor {
 public:
  // What happened.
  struct Asked {        ///< An evaluation is wanted. @pre none is under way.
    Nanos patience{0};  ///< With one step of it, where that is more than the deadline of the options.
  };
  struct Ready {};
  struct Refused {  ///< It cannot do this work, and no other process could.
    std::string why;
  };
  struct Answered {   ///< The evaluation is done.
    bool ran = true;  ///< False: it was refused fast, which says nothing about how long one takes.
  };
  struct Beat {
    std::uint64_t progress = 0;
  };
  struct Died {  ///< Reaped; everything that it had said was told before.
    std::string cause;
  };
  struct Tick {};
  using Event = std::variant<Asked, Ready, Refused, Answered, Beat, Died, Tick>;

  // What to do.
  struct Start {};
  struct Send {};       ///< The evaluation, to the process that is ready.
  struct Terminate {};  ///< SIGTERM.
  struct Kill {};       ///< SIGKILL.
  struct Fail {         ///< The evaluation counts as failed.
    std::string cause;
  };
  struct GiveUp {  ///< No process is started any more, and no evaluation done.
    std::string why;
  };
  using Action = std::variant<Start, Send, Terminate, Kill, Fail, GiveUp>;

  explicit ChildSupervisor(ChildSupervisorOptions options)
      : options_{options},
        limiter_{options.restarts_per_minute},
        jitter_{options.seed, Purpose::kJitter, 1} {}

  std::vector<Action> on(const Event& event, Nanos now) {
    std::vector<Action> actions;
    std::visit([&](const auto& what) { handle(what, now, actions); }, event);
    return actions;
  }

  /// When the next Tick is due; none while nothing is waited for.
  std::optional<Nanos> next() const {
    switch (phase_) {
      case Phase::kStarting:
        return std::min(progressed_ + options_.ready_deadline, heard_ + options_.silence);
      case Phase::kBusy:
        return std::min(progressed_ + deadline(), heard_ + options_.silence);
      case Phase::kEnding:
      case Phase::kWaiting:
        return at_;
      default:
        return std::nullopt;
    }
  }
  /// How long an evaluation may go on without progress.
  Nanos deadline() const {
    const Nanos least = std::max(options_.least_deadline, patience_);
    return fastest_ ? std::max(least, options_.times_best * *fastest_) : least;
  }
  bool gave_up() const { return phase_ == Phase::kGivenUp; }
  int restarts() const { return restarts_; }

 private:
  enum class Phase : std::uint8_t {
    kUnborn,
    kStarting,
    kIdle,
    kBusy,
    kEnding,   ///< Told to end, until at_; then it is killed.
    kKilled,   ///< Until its death is told.
    kWaiting,  ///< Dead; the next one is started at at_.
    kGivenUp
  };

  void handle(const Asked& asked, Nanos now, std::vector<Action>& actions) {
    wanted_ = true;
    patience_ = asked.patience;
    tries_ = 0;
    if (phase_ == Phase::kUnborn) start(now, actions);
    if (phase_ == Phase::kIdle) send(now, actions);
    if (phase_ == Phase::kGivenUp) actions.push_back(GiveUp{given_up_});
  }

  void handle(const Ready&, Nanos now, std::vector<Action>& actions) {
    if (phase_ != Phase::kStarting) return;
    barren_lives_ = 0;
    phase_ = Phase::kIdle;
    heard_ = now;
    if (wanted_) send(now, actions);
  }

  void handle(const Refused& refused, Nanos, std::vector<Action>& actions) {
    if (phase_ == Phase::kStarting) give_up(refused.why, actions);
  }

  void handle(const Answered& answered, Nanos now, std::vector<Action>&) {
    // It may have answered while it was told to end: what was measured was measured.
    if (!wanted_ || (phase_ != Phase::kBusy && phase_ != Phase::kEnding && phase_ != Phase::kKilled)) return;
    wanted_ = evaluating_ = false;
    if (phase_ != Phase::kBusy) return;
    if (answered.ran) fastest_ = std::min(fastest_.value_or(Nanos::max()), now - began_);
    phase_ = Phase::kIdle;
  }

  void handle(const Beat& beat, Nanos now, std::vector<Action>&) {
    heard_ = now;
    if (beat.progress == progress_) return;
    progress_ = beat.progress;
    progressed_ = now;
  }

  void handle(const Died& died, Nanos now, std::vector<Action>& actions) {
    if (phase_ == Phase::kGivenUp || phase_ == Phase::kUnborn || phase_ == Phase::kWaiting) return;
    const std::string cause = cause_.empty() ? died.cause : cause_;
    const bool at_work = evaluating_;
    evaluating_ = false;
    cause_.clear();
    ++barren_lives_;
    // A process that was not yet ready died of something else than the placement.
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
    at_ = now + delay();
  }

  void handle(const Tick&, Nanos now, std::vector<Action>& actions) {
    const auto due = next();
    if (!due || now < *due) return;
    switch (phase_) {
      case Phase::kStarting:
        return end(now < heard_ + options_.silence ? "timeout: not ready after " + seconds(now - progressed_)
                                                   : silent(now),
                   now, actions);
      case Phase::kBusy:
        return end(now < heard_ + options_.silence ? "timeout: no progress for " + seconds(now - progressed_)
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
    progressed_ = heard_ = now;
    actions.push_back(Start{});
  }

  void send(Nanos now, std::vector<Action>& actions) {
    phase_ = Phase::kBusy;
    evaluating_ = true;
    began_ = progressed_ = heard_ = now;
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

  Nanos delay() {
    Nanos longest = options_.first_delay;
    for (int i = 1; i < barren_lives_ && longest < options_.longest_delay; ++i) longest *= 2;
    longest = std::min(longest, options_.longest_delay);
    return longest - std::chrono::duration_cast<Nanos>(longest * (0.5 * jitter_.uniform_double()));
  }

  std::string silent(Nanos now) const { return "timeout: no heartbeat for " + seconds(now - heard_); }
  static std::string seconds(Nanos time) {
    const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
    return fmt::format("{}.{} s", tenths / 10, tenths % 10);
  }

  const ChildSupervisorOptions options_;
  RestartLimiter limiter_;
  Rng jitter_;
  Phase phase_ = Phase::kUnborn;
  bool wanted_ = false;      ///< An evaluation is under way here, whatever became of its process.
  bool evaluating_ = false;  ///< The process at hand was given it.
  int tries_ = 0;            ///< Processes that it has cost.
  int barren_lives_ = 0;     ///< In a row, that were never ready.
  int restarts_ = 0;
  std::uint64_t progress_ = 0;
  Nanos patience_{0}, began_{0}, progressed_{0}, heard_{0}, at_{0};
  std::optional<Nanos> fastest_;
  std::string cause_;  ///< Why it was told to end.
  std::string given_up_;
};

}  // namespace emplace::runtime
