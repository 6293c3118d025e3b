#include "tests/sim/fault_injector.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace emplace::sim_test {
namespace {

using runtime::sim::kHead;
using runtime::sim::NodeId;

/// In bits. More would be noticed at once and hide the effect of one.
constexpr std::uint32_t kMaxRot = 3;

}  // namespace

void FaultInjector::begin() {
  for (const NodeId node : nodes_) world_.network().set_faults(node, swarm_.link);
  constexpr std::array kOfNodes{Fault::kCut,       Fault::kPartition, Fault::kOneWay,
                                Fault::kClog,      Fault::kPause,     Fault::kCrash,
                                Fault::kReplyLost, Fault::kThrow,     Fault::kWallStep};
  for (const Fault fault : kOfNodes)
    if (swarm_.has(fault)) choices_.push_back(fault);
  for (const Fault fault : {Fault::kHeadCrash, Fault::kHeadReplyLost, Fault::kHeadPause, Fault::kDiskFull,
                            Fault::kLeave, Fault::kReadFails, Fault::kExhausted, Fault::kBitRot,
                            Fault::kLauncherPause, Fault::kLauncherKill, Fault::kStartFails})
    if (swarm_.has(fault)) choices_.push_back(fault);
  if (!throwers_.empty()) choices_.push_back(Fault::kRecorderThrows);  // Stands for a throw of any actor.
  if (!choices_.empty()) next();
}

void FaultInjector::heal() {
  if (std::exchange(healed_, true)) return;
  disk_.full = false;
  disk_.sync_fails = disk_.read_fails = 0;
  disk_.exhausted = Exhausted::kNothing;
  for (const NodeId node : nodes_) {
    if (leaving_.contains(node)) world_.crash_node(node);
    world_.network().set_faults(node, {});
    world_.network().block(node, false, false);
    world_.network().clog(node, Nanos{0});
    heal(node);
  }
  heal(kHead);
  if (launcher_ != nullptr) launcher_->heal();
}

void FaultInjector::crash(NodeId node, Nanos down_for) {
  world_.crash_node(node);
  if (launcher_ == nullptr) later(down_for, [this, node] { world_.restart_node(node); });
}

void FaultInjector::crash_before_reply(NodeId node, Nanos down_for) {
  world_.crash_before_reply(node, launcher_ == nullptr ? std::optional{down_for} : std::nullopt);
}

Nanos FaultInjector::between(double least_s, double most_s) {
  return Nanos{static_cast<std::int64_t>((least_s + rng_.uniform_double() * (most_s - least_s)) * 1e9)};
}

void FaultInjector::next() {
  const double mean_s = std::chrono::duration<double>(swarm_.between_faults).count();
  const double wait_s = -std::log(1 - rng_.uniform_double()) * mean_s;
  world_.at(world_.now() + Nanos{static_cast<std::int64_t>(wait_s * 1e9)}, [this] {
    if (healed_) return;
    inject(choices_[rng_.below(static_cast<std::uint32_t>(choices_.size()))],
           nodes_[rng_.below(static_cast<std::uint32_t>(nodes_.size()))]);
    next();
  });
}

void FaultInjector::later(Nanos wait, std::function<void()> undo) {
  world_.at(world_.now() + wait, [this, undo = std::move(undo)] {
    if (!healed_) undo();
  });
}

void FaultInjector::inject(Fault fault, NodeId node) {
  ++injected_;
  auto& network = world_.network();
  switch (fault) {
    case Fault::kCut:
      return network.cut(node);
    case Fault::kPartition:
    case Fault::kOneWay: {
      const bool to_head = fault == Fault::kPartition || rng_.below(2) == 0;
      network.block(node, to_head, fault == Fault::kPartition || !to_head);
      world_.note("partition of " + world_.node_name(node));
      return later(between(0.1, 10), [&network, node] { network.block(node, false, false); });
    }
    case Fault::kClog:
      world_.note("clogged: " + world_.node_name(node));
      return network.clog(node, world_.now() + between(0.1, 3));
    case Fault::kPause:
      world_.pause_node(node);
      return later(between(0.05, 8), [this, node] { world_.resume_node(node); });
    case Fault::kCrash:
      return crash(node, between(0.01, 5));
    case Fault::kReplyLost:
      return crash_before_reply(node, between(0.01, 5));
    case Fault::kThrow: {
      const auto actors = world_.actors_on(node);
      return world_.throw_in(
          runtime::actor_id(actors[rng_.below(static_cast<std::uint32_t>(actors.size()))]));
    }
    case Fault::kWallStep:
      return world_.step_wall(rng_.below(2) == 0 ? kHead : node, between(-86'400, 86'400));
    case Fault::kRecorderThrows:
      return world_.throw_in(throwers_[rng_.below(static_cast<std::uint32_t>(throwers_.size()))]);
    case Fault::kHeadCrash:
      return crash(kHead, between(0.01, 3));
    case Fault::kHeadReplyLost:
      return crash_before_reply(kHead, between(0.01, 3));
    case Fault::kHeadPause:
      world_.pause_node(kHead);
      return later(between(0.05, 5), [this] { world_.resume_node(kHead); });
    case Fault::kLeave:
      world_.stop_node(node);
      leaving_.insert(node);
      return later(between(0.01, 1), [this, node] {
        leaving_.erase(node);
        crash(node, between(0.01, 5));
      });
    case Fault::kDiskFull:
      disk_.full = true;
      return later(between(0.1, 5), [this] { disk_.full = false; });
    case Fault::kLauncherPause:
      launcher_->pause();
      return later(between(0.1, 20), [this] { launcher_->resume(); });
    case Fault::kLauncherKill:
      return launcher_->kill();
    case Fault::kStartFails:
      launcher_->start_fails = rng_.below(2) == 0 ? 1 : 0.5;
      return later(between(0.1, 10), [this] { launcher_->start_fails = 0; });
    case Fault::kBitRot:
      if (rotted_ == kMaxRot) return;
      if (const auto where = disk_.rot()) {
        ++rotted_;
        world_.note("a bit turns over in " + *where);
      }
      return;
    case Fault::kExhausted:
      disk_.exhausted = rng_.below(2) == 0 ? Exhausted::kDescriptors : Exhausted::kMemory;
      world_.note("no file can be opened");
      return later(between(0.05, 5), [this] { disk_.exhausted = Exhausted::kNothing; });
    case Fault::kReadFails:
      disk_.read_fails = 0.01 + 0.3 * rng_.uniform_double();
      world_.note("reads fail");
      return later(between(0.05, 2), [this] { disk_.read_fails = 0; });
    default:
      return;
  }
}

}  // namespace emplace::sim_test
