#pragma once
/// Which processes of a run live: when each is started, who comes back after a death, when to give up, and in
/// what order everything ends. Rules only: whoever owns the processes tells what happened and does what is
/// asked.

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mark.h"
#include "base/rng.h"
#include "runtime/core/restart.h"

namespace emplace::runtime {

struct SupervisorOptions {
  int restarts_per_minute = 5;                        ///< Of one node; one more death ends the run.
  Nanos first_delay = std::chrono::milliseconds{50};  ///< Before a restart; doubled by each short life,
  Nanos longest_delay = std::chrono::seconds{1};      ///< up to this. Jitter takes up to half of it off.
  Nanos healthy = std::chrono::seconds{2};            ///< A life that lasted so long counts as no short one.
  Nanos patience = std::chrono::seconds{8};           ///< With one step of the end; then it is killed.
  Nanos start_patience = std::chrono::minutes{1};     ///< With a machine that cannot start what ran before.
  std::uint64_t seed = 1;                             ///< Of the jitter.
};

/// Node 0 is the head: the others are first started once it is ready. Pure; one thread.
class Supervisor {
 public:
  struct Node {
    std::string name;
    int end_step = 0;  ///< Nodes of lower steps are ended first, and have ended before higher ones are.
  };

  // What happened.
  struct Begin {};
  struct Ready {  ///< It takes part.
    std::size_t node;
  };
  struct Died {
    std::size_t node;
    std::string cause;   ///< "signal 9 (Killed)", with the last lines it wrote.
    bool final = false;  ///< It would die the same way again: no restart.
  };
  struct StartFailed {  ///< The machine has no process, descriptor or memory left for it.
    std::size_t node;
    std::string cause;
  };
  struct EndAsked {
    std::string failure;  ///< Empty: a clean end.
  };
  struct Tick {};
  using Event = std::variant<Begin, Ready, Died, StartFailed, EndAsked, Tick>;

  // What to do.
  struct Start {
    std::size_t node;
  };
  struct Terminate {  ///< Ask it to end: SIGTERM.
    std::size_t node;
  };
  struct Kill {
    std::size_t node;
  };
  struct Finish {};  ///< Every node has ended.
  using Action = std::variant<Start, Terminate, Kill, Finish>;

  Supervisor(std::vector<Node> nodes, SupervisorOptions options)
      : options_{options}, jitter_{options.seed, Purpose::kJitter, 0} {
    for (Node& node : nodes) nodes_.push_back({std::move(node), RestartLimiter{options.restarts_per_minute}});
  }

  std::vector<Action> on(const Event& event, Nanos now) {
    std::vector<Action> actions;
    std::visit([&](const auto& what) { handle(what, now, actions); }, event);
    return actions;
  }

  /// When the next Tick is due.
  std::optional<Nanos> next() const {
    std::optional<Nanos> next;
    const auto earlier = [&](Nanos at) { next = next ? std::min(*next, at) : at; };
    for (const State& node : nodes_)
      if (node.phase == Phase::kWaiting) earlier(node.at);
    if (ending_ && !finished_) earlier(deadline_);
    return next;
  }
  bool ending() const { return ending_; }
  int restarts(std::size_t node) const { return nodes_[node].restarts; }
  /// Why the run had to end; empty for a clean end.
  const std::string& failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { kUnborn, kRunning, kWaiting, kEnded };
  struct State {
    Node node;
    RestartLimiter limiter;
    Phase phase = Phase::kUnborn;
    Nanos at{0};  ///< Of its start; waiting: of the next one.
    int short_lives = 0;
    int restarts = 0;
    bool took_part = false;
    std::optional<Nanos> unstartable_since = {};
    std::string first_cause = {};  ///< Of the deaths of the last minute.
  };

  void handle(const Begin&, Nanos now, std::vector<Action>& actions) { start(0, now, actions); }

  void handle(const Ready& ready, Nanos now, std::vector<Action>& actions) {
    nodes_[ready.node].took_part = true;
    nodes_[ready.node].unstartable_since.reset();
    if (ready.node != 0 || ending_) return;
    for (std::size_t i = 1; i < nodes_.size(); ++i)
      if (nodes_[i].phase == Phase::kUnborn) start(i, now, actions);
  }

  void handle(const Died& died, Nanos now, std::vector<Action>& actions) {
    State& node = nodes_[died.node];
    if (ending_ || died.final) {
      node.phase = Phase::kEnded;
      if (died.final && !ending_) return end(died.cause, now, actions);
      return advance(now, actions);
    }
    node.short_lives = now - node.at >= options_.healthy ? 0 : node.short_lives + 1;
    const bool again = node.limiter.allow(now);
    if (!again && node.limiter.recent() == 0) node.first_cause = died.cause;
    if (again && node.limiter.recent() == 1) node.first_cause = died.cause;
    if (!again) {
      node.phase = Phase::kEnded;
      return end(fmt::format("{}: dies again and again, {} times within a minute; first by {}",
                             node.node.name, node.limiter.recent() + 1, node.first_cause),
                 now, actions);
    }
    node.phase = Phase::kWaiting;
    node.at = now + delay(node.short_lives);
  }

  /// No death: it is tried again until the patience is over. What never ran counts as dead: a limit that is
  /// too low for it is soon told.
  void handle(const StartFailed& failed, Nanos now, std::vector<Action>& actions) {
    State& node = nodes_[failed.node];
    if (ending_ || !node.took_part) return handle(Died{failed.node, failed.cause}, now, actions);
    if (!node.unstartable_since) node.unstartable_since = now;
    if (now - *node.unstartable_since > options_.start_patience) {
      EMPLACE_MARK("supervisor.gave_up_starting");
      node.phase = Phase::kEnded;
      return end(node.node.name + ": cannot be started: " + failed.cause, now, actions);
    }
    EMPLACE_MARK("supervisor.start_failed");
    node.phase = Phase::kWaiting;
    node.at = now + delay(++node.short_lives);
  }

  void handle(const EndAsked& asked, Nanos now, std::vector<Action>& actions) {
    if (!ending_) return end(asked.failure, now, actions);
    for (std::size_t i = 0; i < nodes_.size(); ++i)  // Asked twice: at once.
      if (nodes_[i].phase == Phase::kRunning) actions.push_back(Kill{i});
  }

  void handle(const Tick&, Nanos now, std::vector<Action>& actions) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].phase != Phase::kWaiting || nodes_[i].at > now) continue;
      ++nodes_[i].restarts;
      start(i, now, actions);
    }
    if (!ending_ || finished_ || now < deadline_) return;
    deadline_ = now + options_.patience;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].phase == Phase::kRunning && nodes_[i].node.end_step <= step_) actions.push_back(Kill{i});
  }

  void start(std::size_t i, Nanos now, std::vector<Action>& actions) {
    nodes_[i].phase = Phase::kRunning;
    nodes_[i].at = now;
    actions.push_back(Start{i});
  }

  Nanos delay(int short_lives) {
    Nanos longest = options_.first_delay;
    for (int i = 1; i < short_lives && longest < options_.longest_delay; ++i) longest *= 2;
    longest = std::min(longest, options_.longest_delay);
    return longest - std::chrono::duration_cast<Nanos>(longest * (0.5 * jitter_.uniform_double()));
  }

  void end(std::string failure, Nanos now, std::vector<Action>& actions) {
    ending_ = true;
    failure_ = std::move(failure);
    for (State& node : nodes_)
      if (node.phase != Phase::kRunning) node.phase = Phase::kEnded;
    step_ = std::numeric_limits<int>::min();
    advance(now, actions);
  }

  /// The next step once every node of this one has ended.
  void advance(Nanos now, std::vector<Action>& actions) {
    std::optional<int> lowest;
    for (const State& node : nodes_)
      if (node.phase == Phase::kRunning)
        lowest = lowest ? std::min(*lowest, node.node.end_step) : node.node.end_step;
    if (!lowest) {
      if (!std::exchange(finished_, true)) actions.push_back(Finish{});
      return;
    }
    if (*lowest <= step_) return;
    step_ = *lowest;
    deadline_ = now + options_.patience;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].phase == Phase::kRunning && nodes_[i].node.end_step == step_)
        actions.push_back(Terminate{i});
  }

  SupervisorOptions options_;
  Rng jitter_;
  std::vector<State> nodes_;
  bool ending_ = false, finished_ = false;
  int step_ = std::numeric_limits<int>::min();
  Nanos deadline_{0};
  std::string failure_;
};

}  // namespace emplace::runtime
