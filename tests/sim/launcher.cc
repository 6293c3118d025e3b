#include "tests/sim/launcher.h"

#include <algorithm>
#include <utility>

namespace emplace::sim_test {

using runtime::Supervisor;
using runtime::sim::kHead;
using runtime::sim::NodeId;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::size_t kRoom = 8;              // In lines.
constexpr Nanos kStartPatience = seconds{5};  // Short, so that it sometimes expires.
/// A head that is not blocked and has work or timers sends or receives a message within this time.
constexpr Nanos kHeadIsActiveWithin = seconds{3};

}  // namespace

void ProgressPipe::write() {
  if (waiting_ < room_) {
    ++waiting_;
  } else if (!writer_waits_) {
    newest_waits_ = true;
  } else if (!holding_) {
    holding_ = true;
    // At the end of this handler, because the whole process waits.
    world_.at(world_.now(), [this] {
      if (holding_) world_.pause_node(kHead);
    });
  }
}

void ProgressPipe::read() {
  waiting_ = std::exchange(newest_waits_, false) ? 1 : 0;
  if (std::exchange(holding_, false)) world_.resume_node(kHead);
}

Launcher::Launcher(World& world, const Swarm& swarm, Verdict& verdict)
    : world_{world},
      swarm_{swarm},
      verdict_{verdict},
      rng_{swarm.seed, Purpose::kSimulation, 12},
      pipe_{world, kRoom, swarm.has(Fault::kViewWaits)},
      dies_at_the_end_{swarm.has(Fault::kLauncherKill) && rng_.below(3) == 0} {}

void Launcher::add_node(NodeId node, int end_step) {
  nodes_.push_back(node);
  names_.push_back({world_.node_name(node), end_step});
}

Nanos Launcher::between(double least_s, double most_s) {
  return Nanos{static_cast<std::int64_t>((least_s + rng_.uniform_double() * (most_s - least_s)) * 1e9)};
}

void Launcher::later(Nanos wait, std::function<void()> what) {
  world_.at(world_.now() + wait, [this, incarnation = incarnation_, what = std::move(what)] {
    if (incarnation == incarnation_) what();
  });
}

void Launcher::begin() {
  alive_ = true;
  paused_ = false;
  ++incarnation_;
  tick_at_.reset();
  reads_soon_ = false;
  pipe_.read();
  runtime::SupervisorOptions options;
  options.restarts_per_minute = swarm_.restarts_per_minute;
  options.seed = swarm_.seed + incarnation_;
  options.start_timeout = kStartPatience;
  supervisor_.emplace(names_, options);
  receive(Supervisor::StartNodes{});
}

void Launcher::on_progress() {
  pipe_.write();
  if (!alive_ || paused_ || std::exchange(reads_soon_, true)) return;
  later(milliseconds{1}, [this] {
    reads_soon_ = false;
    if (!paused_) pipe_.read();
  });
}

void Launcher::on_ending(const std::string& reason) {
  receive(Supervisor::StopRequested{reason});
  if (std::exchange(dies_at_the_end_, false)) later(between(0, 3), [this] { kill(); });
}

void Launcher::drain() {
  while (alive_ && !paused_ && !received_.empty()) {
    const auto next = std::move(received_.front());
    received_.pop_front();
    next();
  }
}

void Launcher::handle(const Supervisor::Event& event) {
  if (std::holds_alternative<Supervisor::StopRequested>(event) && supervisor_->ending())
    return;  // It is ending already.
  for (const Supervisor::Action& action : supervisor_->on(event, world_.now()))
    std::visit([&](const auto& what) { act(what); }, action);
  if (!alive_) return;
  const auto next = supervisor_->next();
  if (!next || (tick_at_ && *tick_at_ <= *next)) return;
  tick_at_ = next;
  later(std::max(*next - world_.now(), Nanos{0}), [this] {
    tick_at_.reset();
    receive(Supervisor::Tick{});
  });
}

void Launcher::act(const Supervisor::Launch& start) {
  const NodeId node = nodes_[start.node];
  if (rng_.uniform_double() < start_fails) {
    world_.note("cannot be started: " + world_.node_name(node));
    return receive(Supervisor::StartFailed{start.node, "Resource temporarily unavailable"});
  }
  later(between(0.001, 0.05), [this, node, i = start.node] {
    world_.restart_node(node);  // No effect at the start: the world has made the node.
    later(between(0.001, 0.02), [this, i] { receive(Supervisor::Ready{i}); });
  });
}

void Launcher::act(const Supervisor::Terminate& terminate) { end_in_order(nodes_[terminate.node]); }
void Launcher::act(const Supervisor::Kill& kill) { world_.crash_node(nodes_[kill.node]); }

void Launcher::act(const Supervisor::Finish&) {
  const std::string& why = supervisor_->failure();
  const bool resumed =
      why.find("within a minute") != std::string::npos || why.find("cannot be started") != std::string::npos;
  if (!resumed) {
    finished_ = why;
    alive_ = false;
    return;
  }
  world_.note("the run has ended: " + why);
  alive_ = false;
  ++incarnation_;
  resume_run_later();
}

void Launcher::end_in_order(NodeId node) {
  world_.resume_node(node);  // A paused node would not receive the signal.
  for (const auto& wait : {milliseconds{0}, milliseconds{500}})
    world_.at(world_.now() + wait, [this, node] { world_.stop_node(node); });
  world_.at(world_.now() + seconds{1}, [this, node] { world_.crash_node(node); });
}

void Launcher::on_node(const std::string& name, Event event) {
  const auto found =
      std::find_if(names_.begin(), names_.end(), [&](const auto& node) { return node.name == name; });
  if (found == names_.end()) return;
  if (found == names_.begin() && !pipe_.holds_the_head()) head_was_free_ = false;
  if (event != Event::kCrashed || !alive_) return;
  const auto node = static_cast<std::size_t>(found - names_.begin());
  later(between(0.0001, 0.2), [this, node] { receive(Supervisor::Exited{node, "signal 9 (Killed)"}); });
}

void Launcher::on_delivering(const Packet& packet) {
  if (paused_ && world_.home_of(packet.envelope.to) == kHead) head_active_at_ = world_.now();
}

void Launcher::pause() {
  if (!alive_ || std::exchange(paused_, true)) return;
  world_.note("the launcher stands still");
  head_was_free_ = world_.up(kHead) && !world_.paused(kHead);
  head_active_at_ = world_.now();
}

void Launcher::resume() {
  if (!std::exchange(paused_, false)) return;
  world_.note("the launcher continues");
  if (head_was_free_ && world_.now() - head_active_at_ > kHeadIsActiveWithin)
    verdict_.broken("no endless wait (G21)", "while the launcher stands still the head does nothing");
  pipe_.read();
  drain();
}

void Launcher::kill() {
  if (!alive_) return;
  world_.note("the launcher is killed");
  alive_ = paused_ = false;
  ++incarnation_;
  received_.clear();
  for (const NodeId node : nodes_)
    world_.at(world_.now() + between(0, 0.5), [this, node] {
      if (world_.up(node)) end_in_order(node);
    });
  resume_run_later();
}

void Launcher::resume_run_later() {
  received_.clear();
  later(seconds{2} + between(0, 3), [this] {
    world_.note("the run is resumed");
    begin();
  });
}

void Launcher::heal() {
  start_fails = 0;
  resume();
}

}  // namespace emplace::sim_test
