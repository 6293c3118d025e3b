#pragma once
// Injects faults into the nodes, the network and the disk of a simulated world.

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/rng.h"
#include "tests/runtime/sim/world.h"
#include "tests/sim/disk.h"
#include "tests/sim/launcher.h"
#include "tests/sim/swarm.h"

namespace emplace::sim_test {

/// Injects the faults of a swarm one after the other, until the safety phase ends.
class FaultInjector {
 public:
  /// `launcher`: restarts nodes; null: a node restarts after a drawn time.
  FaultInjector(runtime::sim::World& world, const Swarm& swarm, Disk& disk, Launcher* launcher)
      : world_{world},
        swarm_{swarm},
        disk_{disk},
        launcher_{launcher},
        rng_{swarm.seed, Purpose::kSimulation, 5} {}

  void add_node(runtime::sim::NodeId node) { nodes_.push_back(node); }
  /// Lets the actor throw, if the swarm has this fault.
  void add_thrower(Fault fault, runtime::ActorId actor) {
    if (swarm_.has(fault)) throwers_.push_back(actor);
  }
  std::uint64_t injected() const { return injected_; }
  bool rotted() const { return rotted_ > 0; }

  void begin();
  /// Ends the safety phase: undoes all faults, and injects no more.
  void heal();

 private:
  void heal(runtime::sim::NodeId node) {
    launcher_ == nullptr ? world_.heal_node(node) : world_.calm_node(node);
  }
  void crash(runtime::sim::NodeId node, Nanos down_for);
  void crash_before_reply(runtime::sim::NodeId node, Nanos down_for);
  Nanos between(double least_s, double most_s);
  void next();
  /// Calls `undo` after a while, unless the safety phase has ended by then.
  void later(Nanos wait, std::function<void()> undo);
  void inject(Fault fault, runtime::sim::NodeId node);

  runtime::sim::World& world_;
  const Swarm& swarm_;
  Disk& disk_;
  Launcher* const launcher_;
  Rng rng_;
  std::vector<runtime::sim::NodeId> nodes_;
  std::vector<runtime::ActorId> throwers_;
  std::vector<Fault> choices_;
  std::set<runtime::sim::NodeId> leaving_;  // Nodes that were asked to end and are still running.
  bool healed_ = false;
  std::uint64_t injected_ = 0;
  std::uint32_t rotted_ = 0;
};

}  // namespace emplace::sim_test
