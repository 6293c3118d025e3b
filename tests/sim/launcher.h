#pragma once
// The process that starts and watches the others, and the pipe through which it hears how the run goes. The
// rules are those of the real one (runtime/core/supervisor.h); it is stopped, continued and killed like any
// process, and a person who resumes the run stands behind it.

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
/// (runtime/process/line_writer.h); or waits, as a plain write would.
class ProgressPipe {
 public:
  ProgressPipe(World& world, std::size_t room, bool writer_waits)
      : world_{world}, room_{room}, writer_waits_{writer_waits} {}
  /// The head writes a line.
  void write();
  /// The launcher takes everything.
  void read();
  /// The head waits in a write.
  bool holds_the_head() const { return holding_; }

 private:
  World& world_;
  const std::size_t room_;
  const bool writer_waits_;
  std::size_t waiting_ = 0;
  bool newest_waits_ = false, holding_ = false;
};

/// G21 too: while the launcher alone stands still, the head goes on.
class Launcher final : public runtime::sim::Observer {
 public:
  Launcher(World& world, const Swarm& swarm, Verdict& verdict);
  /// Nodes that the world has, the head first.
  void add_node(runtime::sim::NodeId node, int end_step);

  /// Somebody starts it, or resumes the run.
  void begin();
  /// The head writes how the run goes.
  void on_progress();
  /// A node says that the run ends, and why; empty: it is done.
  void on_ending(const std::string& reason);
  /// It asked all nodes to end, and all have; why, if it was no clean end.
  const std::optional<std::string>& finished() const { return finished_; }

  void pause();
  void resume();
  /// Its nodes end with it. Somebody resumes the run some seconds later.
  void kill();
  /// From now on nothing befalls it any more.
  void heal();
  double start_fails = 0;  ///< Probability of each.

  void on_node(const std::string& name, Event event) override;
  void on_delivering(const Packet& packet) override;

 private:
  /// Tells its rules, as soon as it looks.
  template <class Event>
  void hear(Event event) {
    if (!alive_) return;
    received_.push_back([this, event = std::move(event)] { tell(event); });
    if (!paused_) later(Nanos{0}, [this] { drain(); });
  }
  void drain();
  void tell(const runtime::Supervisor::Event& event);
  void act(const runtime::Supervisor::Launch& start);
  void act(const runtime::Supervisor::Terminate& terminate);
  void act(const runtime::Supervisor::Kill& kill);
  void act(const runtime::Supervisor::Finish& finish);
  /// As a node does that is asked to end: its last words, twice, for the recorder's are the last; then it is
  /// gone.
  void end_in_order(runtime::sim::NodeId node);
  void resume_run_later();
  /// Runs it at that time, unless this launcher is gone by then.
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
  std::deque<std::function<void()>> received_;  // What it has not looked at yet.
  bool alive_ = false, paused_ = false, reads_soon_ = false;
  bool dies_at_the_end_;  // Once, while the nodes end.
  std::uint64_t life_ = 0;
  std::optional<Nanos> tick_at_;
  std::optional<std::string> finished_;
  // While it stands still.
  bool head_was_free_ = false;  // All the while, but for what the pipe did.
  Nanos head_heard_{0};         // The last message.
};

}  // namespace emplace::sim_test
