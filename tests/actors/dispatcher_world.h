#pragma once
/// A dispatcher in a simulated world, whose messages a test delivers by hand.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "actors/dispatch/dispatcher.h"
#include "actors/executor_actor.h"
#include "executor/sim/simulator.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {

using messages::EpisodeReported;
using messages::LeaseGranted;
using messages::PlacementMeasured;
using messages::PlacementProposed;
using runtime::sim::World;

inline void expect_adds_up(const messages::LeaseCounts& leases) {
  EXPECT_EQ(leases.issued, leases.counted + leases.open + leases.expired + leases.refused);
}

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    OpGraph graph = testing::sample_graph({{"a"}, {"b", {{0, 0}}}, {"c", {{1, 0}}}, {"d", {{2, 0}}}});
    DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
    Constraints constraints = *Constraints::make(graph, devices);
    task_ = make_task({std::move(graph), std::move(devices), std::move(constraints), "hash"}, "here");
    options_.placements_per_lease = 2;
    options_.window = 4;
    options_.samplers = {};
  }
  void start() { dispatcher_ = world_.spawn<Dispatcher>(kDispatcher, task_, options_); }
  void join(const std::string& name, std::uint64_t epoch = 1, std::uint32_t credit = 4) {
    messages::ExecutorJoined joined{name, "here", "sim", "hash", 2, epoch};
    world_.deliver(dispatcher_, joined, {}, runtime::actor_id(name));
    world_.deliver(dispatcher_, messages::CreditGranted{name, epoch, credit, 1 << 20}, {},
                   runtime::actor_id(name));
  }
  void propose(std::uint64_t episode, std::uint32_t count) {
    PlacementProposed p;
    p.graph_sha256 = "hash";
    p.episode = episode;
    p.count = count;
    p.placement_id = 100 * episode;
    p.num_ops = 4;
    p.num_devices = 2;
    messages::BulkBuilder bulk;
    const messages::Bytes placements(4u * count, std::byte{0});
    p.placements = bulk.add(placements);
    p.actions = bulk.add(messages::Bytes{std::byte{7}});
    world_.deliver(dispatcher_, p, bulk.finish(), runtime::actor_id("sampler/0"));
  }
  std::vector<LeaseGranted> leases() const { return world_.sent<LeaseGranted>(); }
  void answer(const LeaseGranted& lease, const std::string& executor, double step_time_s = 1) {
    world_.deliver(dispatcher_, result_of(lease, executor, step_time_s), {}, runtime::actor_id(executor));
  }
  static PlacementMeasured result_of(const LeaseGranted& lease, const std::string& executor,
                                     double step_time_s) {
    PlacementMeasured m;
    m.placement_id = lease.placement_id;
    m.executor = executor;
    m.executor_kind = "sim";
    m.host = "here";
    m.lease_epoch = lease.lease_epoch;
    m.resize(lease.count, 2);
    m.valid.assign(lease.count, 1);
    m.step_time_s.assign(lease.count, step_time_s);
    return m;
  }
  Dispatcher& dispatcher() { return world_.actor<Dispatcher>(dispatcher_); }
  static ExecutorFactory simulate() {
    return [](const TaskGraph& of) { return std::make_unique<Simulator>(of.graph, of.devices); };
  }

  World world_;
  TaskPtr task_;
  DispatcherOptions options_;
  runtime::ActorId dispatcher_{};
};

}  // namespace emplace::actors
