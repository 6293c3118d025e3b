#pragma once
/// Supervision of the processes of a run: start, restart with backoff, giving up, and the order of shutdown.
/// Pure rules: the owner of the processes reports events and carries out actions.

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
  int restarts_per_minute = 5;  ///< Restarts per node; one more death ends the run.
  /// Backoff before the first restart; doubled by each short incarnation.
  Nanos first_delay = std::chrono::milliseconds{50};
  Nanos longest_delay =
      std::chrono::seconds{1};               ///< Upper bound of the backoff. Jitter subtracts up to half.
  Nanos healthy = std::chrono::seconds{2};   ///< Incarnations of at least this duration are not short.
  Nanos patience = std::chrono::seconds{8};  ///< Timeout of one shutdown step; then its nodes are killed.
  /// How long to retry a start that the machine cannot do now.
  Nanos start_timeout = std::chrono::minutes{1};
  std::uint64_t seed = 1;  ///< Seed of the jitter.
};

/// Node 0 is the head; the others start once it is ready. Pure; one thread.
class Supervisor {
 public:
  struct Node {
    std::string name;
    int end_step = 0;  ///< Shutdown step: lower steps end, completely, before higher ones.
  };

  // Events.
  struct StartNodes {};
  struct Ready {  ///< The node has joined the run.
    std::size_t node;
  };
  struct Exited {
    std::size_t node;
    std::string cause;   ///< Cause such as "signal 9 (Killed)", with the last lines it wrote.
    bool final = false;  ///< A restart would fail the same way: do not restart.
  };
  struct StartFailed {  ///< The machine is out of processes, descriptors or memory.
    std::size_t node;
    std::string cause;
  };
  struct StopRequested {
    std::string failure;  ///< Failure of the run; empty: a clean end.
  };
  struct Tick {};
  using Event = std::variant<StartNodes, Ready, Exited, StartFailed, StopRequested, Tick>;

  // Actions.
  struct Launch {
    std::size_t node;
  };
  struct Terminate {  ///< Send SIGTERM.
    std::size_t node;
  };
  struct Kill {
    std::size_t node;
  };
  struct Finish {};  ///< Every node has ended.
  using Action = std::variant<Launch, Terminate, Kill, Finish>;

  Supervisor(std::vector<Node> nodes, SupervisorOptions options)
      : options_{options}, jitter_{options.seed, Purpose::kJitter, 0} {
    for (Node& node : nodes) nodes_.push_back({std::move(node), RestartLimiter{options.restarts_per_minute}});
  }

  std::vector<Action> on(const Event& event, Nanos now) {
    std::vector<Action> actions;
    std::visit([&](const auto& what) { handle(what, now, actions); }, event);
    return actions;
  }

  /// Time of the next Tick.
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
  /// Failure that ended the run; empty for a clean end.
  const std::string& failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { kNotStarted, kRunning, kWaiting, kEnded };
  struct State {
    Node node;
    RestartLimiter limiter;
    Phase phase = Phase::kNotStarted;
    Nanos at{0};  ///< Time of its start, or of the next one while it waits.
    int short_incarnations = 0;
    int restarts = 0;
    bool joined = false;
    std::optional<Nanos> unstartable_since = {};
    std::string first_cause = {};  ///< Cause of the first death in the last minute.
  };

  void handle(const StartNodes&, Nanos now, std::vector<Action>& actions) { start(0, now, actions); }

  void handle(const Ready& ready, Nanos now, std::vector<Action>& actions) {
    nodes_[ready.node].joined = true;
    nodes_[ready.node].unstartable_since.reset();
    if (ready.node != 0 || ending_) return;
    for (std::size_t i = 1; i < nodes_.size(); ++i)
      if (nodes_[i].phase == Phase::kNotStarted) start(i, now, actions);
  }

  void handle(const Exited& died, Nanos now, std::vector<Action>& actions) {
    State& node = nodes_[died.node];
    if (ending_ || died.final) {
      node.phase = Phase::kEnded;
      if (died.final && !ending_) return end(died.cause, now, actions);
      return advance(now, actions);
    }
    node.short_incarnations = now - node.at >= options_.healthy ? 0 : node.short_incarnations + 1;
    const bool again = node.limiter.allow(now);
    if (!again && node.limiter.recent() == 0) node.first_cause = died.cause;
    if (again && node.limiter.recent() == 1) node.first_cause = died.cause;
    if (!again) {
      node.phase = Phase::kEnded;
      return end(fmt::format("{}: failed {} times within a minute; first cause: {}", node.node.name,
                             node.limiter.recent() + 1, node.first_cause),
                 now, actions);
    }
    node.phase = Phase::kWaiting;
    node.at = now + delay(node.short_incarnations);
  }

  /// Retries until start_timeout is over: a failed start is not a death. A node that never joined counts as
  /// dead, so that a limit that is too low for it is reported soon.
  void handle(const StartFailed& failed, Nanos now, std::vector<Action>& actions) {
    State& node = nodes_[failed.node];
    if (ending_ || !node.joined) return handle(Exited{failed.node, failed.cause}, now, actions);
    if (!node.unstartable_since) node.unstartable_since = now;
    if (now - *node.unstartable_since > options_.start_timeout) {
      EMPLACE_MARK("supervisor.gave_up_starting");
      node.phase = Phase::kEnded;
      return end(node.node.name + ": cannot be started: " + failed.cause, now, actions);
    }
    EMPLACE_MARK("supervisor.start_failed");
    node.phase = Phase::kWaiting;
    node.at = now + delay(++node.short_incarnations);
  }

  void handle(const StopRequested& asked, Nanos now, std::vector<Action>& actions) {
    if (!ending_) return end(asked.failure, now, actions);
    for (std::size_t i = 0; i < nodes_.size(); ++i)  // Requested twice: kill at once.
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
    actions.push_back(Launch{i});
  }

  Nanos delay(int short_incarnations) {
    return jittered(doubled(options_.first_delay, short_incarnations - 1, options_.longest_delay), jitter_);
  }

  void end(std::string failure, Nanos now, std::vector<Action>& actions) {
    ending_ = true;
    failure_ = std::move(failure);
    for (State& node : nodes_)
      if (node.phase != Phase::kRunning) node.phase = Phase::kEnded;
    step_ = std::numeric_limits<int>::min();
    advance(now, actions);
  }

  /// Starts the next shutdown step once every node of this one has ended.
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
