// Goal: the chain names what determined the step time, and why each of its links started when it did. Method:
// graphs computed by hand (1 us = 1000 bytes, latency 1 us); then random ones, where the links must touch one
// another from the step's start to its end.
#include "executor/sim/critical_chain.h"

#include <gtest/gtest.h>

#include "executor/sim/simulator.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::sample_devices;
using testing::sample_graph;
using Kind = ChainLink::Kind;
using Cause = ChainLink::Cause;

constexpr DeviceId kFirst{0}, kSecond{1};
constexpr std::int64_t kRoomyBytes = 1 << 30;

struct Traced {
  Schedule schedule;
  CriticalChain chain;
  double step_time_s = 0;
};

Traced trace(const OpGraph& graph, const DeviceSet& devices, const Placement& placement) {
  Simulator simulator{graph, devices};
  Measurement m;
  Traced traced;
  EXPECT_TRUE(simulator.trace(placement, m, traced.schedule).ok());
  traced.chain = critical_chain(LoweredGraph{graph}, placement, traced.schedule, devices);
  traced.step_time_s = m.step_time_s;
  return traced;
}

/// "a input, b engine, copy of a input": the links of the chain and why they started when they did.
std::string chain_text(const OpGraph& graph, const Traced& traced) {
  std::string text;
  for (const ChainLink& link : traced.chain.links) {
    if (!text.empty()) text += ", ";
    if (link.kind == Kind::kOp) text += graph.name(traced.schedule.ops[link.run].op);
    if (link.kind == Kind::kTransfer)
      text +=
          "copy of " + std::string{graph.name(graph.producer(traced.schedule.transfers[link.run].tensor))};
    if (link.kind == Kind::kGap) text += "gap";
    text += link.cause == Cause::kInput ? " input" : link.cause == Cause::kEngine ? " engine" : " start";
  }
  return text;
}

TEST(CriticalChain, IncludesTheCopyThatTheLastOpWaitedFor) {
  const OpGraph graph =
      sample_graph({{"a", {}, {5000}, 1}, {"b", {{0, 0}}, {1}, 20}, {"c", {{0, 0}}, {1}, 10}});
  const Traced traced = trace(graph, sample_devices(2, false, kRoomyBytes), {kFirst, kSecond, kFirst});
  EXPECT_EQ(chain_text(graph, traced), "a start, copy of a input, b input");
  EXPECT_DOUBLE_EQ(traced.chain.ops_s, 21e-6);
  EXPECT_DOUBLE_EQ(traced.chain.transfers_s, 6e-6);
  EXPECT_DOUBLE_EQ(traced.chain.behind_engine_s, 0);
}

TEST(CriticalChain, OpsThatWaitForTheirDeviceFollowThePreviousOp) {
  // b and c could both start at 1 us; the device runs b first.
  const OpGraph graph = sample_graph({{"a", {}, {8}, 1}, {"b", {{0, 0}}, {8}, 4}, {"c", {{0, 0}}, {8}, 2}});
  const Traced traced = trace(graph, sample_devices(1, false, kRoomyBytes), {kFirst, kFirst, kFirst});
  EXPECT_EQ(chain_text(graph, traced), "a start, b input, c engine");
  EXPECT_DOUBLE_EQ(traced.chain.behind_engine_s, 2e-6);
}

TEST(CriticalChain, QueuedCopiesFollowThePreviousCopy) {
  // Both outputs are made at 1 us; the second copy waits for the engine (2 us each).
  const OpGraph graph =
      sample_graph({{"a", {}, {1000, 1000}, 1}, {"b", {{0, 0}}, {1}, 1}, {"c", {{0, 1}}, {1}, 1}});
  const Traced traced = trace(graph, sample_devices(2, false, kRoomyBytes), {kFirst, kSecond, kSecond});
  EXPECT_EQ(chain_text(graph, traced), "a start, copy of a input, copy of a engine, c input");
}

TEST(CriticalChain, CopiesThatWaitForASharedLinkFollowTheCopyOnIt) {
  // Two devices share a link to the third; both copies are requested at 1 us and take 2 us.
  const OpGraph graph = sample_graph(
      {{"a", {}, {1000}, 1}, {"b", {}, {1000}, 1}, {"c", {{0, 0}}, {1}, 1}, {"d", {{1, 0}}, {1}, 2}});
  const auto devices = sample_devices(3, false, kRoomyBytes)
                           .with_shared({{"nic", {static_cast<DeviceId>(0), static_cast<DeviceId>(1)}, 1}});
  ASSERT_TRUE(devices.ok());
  const DeviceId third = static_cast<DeviceId>(2);
  const Traced traced = trace(graph, *devices, {kFirst, kSecond, third, third});
  EXPECT_EQ(chain_text(graph, traced), "a start, copy of a input, copy of b engine, d input");
}

TEST(CriticalChain, ReportsGapsOfASlowExecutor) {
  const OpGraph graph = sample_graph({{"a", {}, {8}, 1}, {"b", {{0, 0}}, {8}, 1}});
  Schedule schedule;
  schedule.ops = {{OpId{0}, kFirst, 1e-6, 2e-6}, {OpId{1}, kFirst, 5e-6, 6e-6}};
  const CriticalChain chain =
      critical_chain(LoweredGraph{graph}, {kFirst, kFirst}, schedule, sample_devices(1, false, kRoomyBytes));
  ASSERT_EQ(chain.links.size(), 4u);
  EXPECT_EQ(chain.links[0].kind, Kind::kGap);
  EXPECT_EQ(chain.links[2].kind, Kind::kGap);
  EXPECT_DOUBLE_EQ(chain.gaps_s, 4e-6);
}

TEST(CriticalChain, EmptyScheduleHasNoChain) {
  const OpGraph graph = sample_graph({{"a", {}, {8}, 1}});
  EXPECT_TRUE(
      critical_chain(LoweredGraph{graph}, {kFirst}, {}, sample_devices(1, false, kRoomyBytes)).links.empty());
}

TEST(CriticalChain, LinksTouchFromStartToEndOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 3};
    const OpGraph graph = testing::random_graph(rng, 8 + rng.below(80));
    const DeviceSet devices = sample_devices(1 + rng.below(3), rng.below(2) == 0, kRoomyBytes);
    const Traced traced =
        trace(graph, devices, testing::random_placement(rng, graph.num_ops(), devices.size()));
    double at_s = 0;
    for (const ChainLink& link : traced.chain.links) {
      EXPECT_NE(link.kind, Kind::kGap) << "the simulator never waits without a cause";
      EXPECT_EQ(link.start_s, at_s);
      at_s = link.end_s;
    }
    EXPECT_EQ(at_s, traced.step_time_s);
    EXPECT_NEAR(traced.chain.ops_s + traced.chain.transfers_s, traced.step_time_s, 1e-12);
  }
}

}  // namespace
}  // namespace emplace
