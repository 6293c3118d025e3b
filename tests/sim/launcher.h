#pragma once
// The process that starts and watches the others, and the pipe through which it receives the progress of the
// run. The rules are those of the real launcher (runtime/core/supervisor.h); it is stopped, continued and
// killed like any process, and the run is then resumed as by a user.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "runtime/core/supervisor.h"
#include "tests/sim/checkers.h"

namespace emplace::sim_test {

/// A pipe of bounded room, whose writer keeps only the newest line while it is full
/// (runtime/process/line_writer.h), or waits as a plain write would.
class ProgressPipe {
 public:
  ProgressPipe(World& world, std::size_t room, bool writer_waits)
      : world_{world}, room_{room}, writer_waits_{writer_waits} {}
  /// The head writes a line.
  void write();
  /// The launcher reads everything.
  void read();
  /// Whether the head waits in a write.
  bool holds_the_head() const { return holding_; }

 private:
  World& world_;
  const std::size_t room_;
  const bool writer_waits_;
  std::size_t waiting_ = 0;
  bool newest_waits_ = false, holding_ = false;
};

/// The simulated launcher. Also checks G21: while only the launcher is paused, the head continues.
class Launcher final : public runtime::sim::Observer {
 public:
  Launcher(World& world, const Swarm& swarm, Verdict& verdict);
  /// Adds a node of the world; the head is the first.
  void add_node(runtime::sim::NodeId node, int end_step);

  /// Starts the launcher, at the start of the run or when it is resumed.
  void begin();
  /// The head writes a progress line.
  void on_progress();
  /// A node reports that the run ends, and why; empty: it is done.
  void on_ending(const std::string& reason);
  /// Set when all nodes have ended as requested: the failure, or empty after a clean end.
  const std::optional<std::string>& finished() const { return finished_; }

  void pause();
  void resume();
  /// Its nodes end with it. The run is resumed some seconds later.
  void kill();
  /// Ends its faults.
  void heal();
  double start_fails = 0;  ///< Probability that a start fails.

  void on_node(const std::string& name, Event event) override;
  void on_delivering(const Packet& packet) override;

 private:
  /// Passes an event to its rules, as soon as it is not paused.
  template <class Event>
  void receive(Event event) {
    if (!alive_) return;
    received_.push_back([this, event = std::move(event)] { handle(event); });
    if (!paused_) later(Nanos{0}, [this] { drain(); });
  }
  void drain();
  void handle(const runtime::Supervisor::Event& event);
  void act(const runtime::Supervisor::Launch& start);
  void act(const runtime::Supervisor::Terminate& terminate);
  void act(const runtime::Supervisor::Kill& kill);
  void act(const runtime::Supervisor::Finish& finish);
  /// Ends a node gracefully: it sends its final messages, twice because the recorder's are the last, and
  /// ends.
  void end_in_order(runtime::sim::NodeId node);
  void resume_run_later();
  /// Runs `what` after `wait`, unless this launcher has ended by then.
  void later(Nanos wait, std::function<void()> what);
  Nanos between(double least_s, double most_s);

  World& world_;
  const Swarm& swarm_;
  Verdict& verdict_;
  Rng rng_;
  ProgressPipe pipe_;
  std::vector<runtime::Supervisor::Node> names_;
  std::vector<runtime::sim::NodeId> nodes_;
  std::optional<runtime::Supervisor> supervisor_;
  std::deque<std::function<void()>> received_;  // Events that it has not handled yet.
  bool alive_ = false, paused_ = false, reads_soon_ = false;
  bool dies_at_the_end_;  // Whether it is killed once while the nodes end.
  std::uint64_t incarnation_ = 0;
  std::optional<Nanos> tick_at_;
  std::optional<std::string> finished_;
  // While it is paused.
  bool head_was_free_ = false;  // Whether the head ran throughout, except for waits for the pipe.
  Nanos head_active_at_{0};     // Time of the last message to the head.
};

}  // namespace emplace::sim_test
