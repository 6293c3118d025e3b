// Goal: replicas exchange every gradient once, before any update, and their steps take the time of what they
// do. Method: chains of layers whose steps are known by formula, and the structure of the graph of replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "executor/pipeline/pipeline_simulator.h"
#include "executor/sim/simulator.h"
#include "graph/copied_op.h"
#include "graph/lowering.h"
#include "graph/training/replica_graph.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGradient = 100;  // Bytes of each layer's gradient in layers_step().

OpGraph short_layers(std::uint32_t n) { return testing::layers_step(std::vector<double>(n, 2), 1.5, 1000); }

/// Replica r is device r.
Strategy on_each(std::uint32_t replicas, std::uint32_t micro_batches) {
  Strategy strategy{micro_batches};
  for (std::uint32_t r = 0; r < replicas; ++r) strategy.replicas.push_back({static_cast<DeviceId>(r)});
  return strategy;
}

Measurement measured(const OpGraph& graph, const DeviceSet& devices, const Strategy& strategy) {
  EXPECT_TRUE(check_strategy(strategy, devices).ok());
  PipelineSimulator simulator{graph, devices, strategy};
  Measurement out;
  const Placement first(graph.num_ops(), strategy.replicas.front().front());
  EXPECT_TRUE(simulator.measure(first, out).ok());
  return out;
}

/// Whether an op of the graph reads a tensor of another one, in any number of steps.
bool reaches(const OpGraph& graph, OpId from, OpId to) {
  std::vector<bool> seen(graph.num_ops(), false);
  std::vector<OpId> open{to};
  while (!open.empty()) {
    const OpId op = open.back();
    open.pop_back();
    if (op == from) return true;
    for (const TensorId input : graph.inputs(op)) {
      const OpId next = graph.producer(input);
      if (!seen[index(next)]) open.push_back(next);
      seen[index(next)] = true;
    }
  }
  return false;
}

TEST(ReplicaGraph, UpdatesWaitForTheGradientsOfAllReplicas) {
  const OpGraph graph = short_layers(3);
  for (const Islands& islands :
       {Islands{{0, 1, 2, 3}}, Islands{{0, 1}, {2, 3}}, Islands{{0}, {1}, {2}, {3}}}) {
    const ReplicaGraph made = replica_graph(graph, islands);
    EXPECT_TRUE(made.graph.ids_are_topological());
    const auto find = [&](const std::string& name) {
      for (std::uint32_t i = 0; i < made.graph.num_ops(); ++i)
        if (made.graph.name(OpId{i}) == name) return OpId{i};
      return kNoOp;
    };
    for (const char* layer : {"0", "1", "2"})
      for (const char* reader : {"@r0", "@r1", "@r2", "@r3"})
        for (const char* maker : {"@r0", "@r1", "@r2", "@r3"}) {
          const OpId update = find(std::string{"u"} + layer + reader);
          const OpId backward = find(std::string{"b"} + layer + maker);
          ASSERT_NE(update, kNoOp);
          ASSERT_NE(backward, kNoOp);
          EXPECT_TRUE(reaches(made.graph, backward, update)) << layer << reader << maker;
        }
    // Forward and backward passes know nothing of each other.
    EXPECT_FALSE(reaches(made.graph, find("f0@r1"), find("b0@r0")));
    for (std::uint32_t i = 0; i < made.graph.num_ops(); ++i) {
      const std::string name{made.graph.name(OpId{i})};
      EXPECT_EQ(name.substr(name.rfind("@r")), "@r" + std::to_string(made.replica[i]));
    }
  }
}

/// Buckets of gradients of this size, of which the first two are in another block: "b2 of 3" starts with b2
/// and has 3.
std::vector<std::string> buckets_of(std::uint32_t gradients, std::int64_t bytes) {
  OpGraphBuilder builder;
  builder.set_name("blocks");
  for (std::uint32_t k = 0; k < gradients; ++k)
    builder.add({.name = "b" + std::to_string(k),
                 .type = "Work",
                 .outputs = {{DType::kU8, {bytes}}},
                 .group = k < 2 ? "layer/0/attention" : "layer/1",
                 .phase = Phase::kBackward});
  for (std::uint32_t k = 0; k < gradients; ++k)
    builder.add({.name = "u" + std::to_string(k),
                 .type = "Work",
                 .inputs = {{k, 0}},
                 .outputs = {{DType::kU8, {1}}},
                 .phase = Phase::kUpdate});
  const ReplicaGraph made = replica_graph(std::move(builder).build().value(), {{0, 1}});
  std::vector<std::string> buckets;
  const std::string_view end = "@bucket@r0";
  for (std::uint32_t i = 0; i < made.graph.num_ops(); ++i)
    if (const std::string name{made.graph.name(OpId{i})}; name.ends_with(end))
      buckets.push_back(name.substr(0, name.size() - end.size()) + " of " +
                        std::to_string(made.graph.inputs(OpId{i}).size()));
  return buckets;
}

TEST(ReplicaGraph, EndsABucketAtABlockAndAtItsSize) {
  // Three gradients of 10 MiB exceed 25 MiB; of small ones each bucket has a sixteenth.
  std::vector<std::string> large{"b0 of 2"}, small{"b0 of 2"};
  for (std::uint32_t k = 2; k < 41; k += 3) large.push_back("b" + std::to_string(k) + " of 3");
  for (std::uint32_t k = 2; k < 64; k += 4)
    small.push_back("b" + std::to_string(k) + (k < 62 ? " of 4" : " of 2"));
  EXPECT_EQ(buckets_of(41, 10 << 20), large);
  EXPECT_EQ(buckets_of(64, 1 << 10), small);
}

TEST(Replicas, ExchangeTheLeastBytesThatAnAllReduceNeeds) {
  // Each of R replicas sends and receives (R - 1) / R of the gradients twice.
  for (const std::uint32_t replicas : {2u, 4u, 5u}) {
    const DeviceSet devices = testing::sample_devices(replicas, false, 1 << 30);
    const Measurement out = measured(short_layers(5), devices, on_each(replicas, replicas));
    EXPECT_EQ(out.bytes_moved, std::int64_t{2} * (replicas - 1) * 5 * kGradient) << replicas;
  }
}

TEST(Replicas, CrossASlowLinkWithAFractionOfTheGradients) {
  // Two islands of two: each device exchanges half of its gradients with one counterpart.
  std::vector<Link> links;
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) links.push_back({a / 2 == b / 2 ? 1e12 : 1e6, 0});
  std::vector<Device> four;
  for (std::size_t k = 0; k < 4; ++k)
    four.push_back({"gpu:" + std::to_string(k), *find_profile("k40"), 1 << 30, ""});
  const auto devices = DeviceSet::make(std::move(four), std::move(links));
  ASSERT_TRUE(devices.ok());
  const Measurement out = measured(short_layers(1), *devices, on_each(4, 4));
  // A device sends a quarter of the 100 bytes over its slow link, and receives one: twice 25 us.
  EXPECT_NEAR(out.step_time_s, 70e-6, 20e-6);  // With some launches.
  const Measurement flat =
      measured(short_layers(1), testing::sample_devices(4, false, 1 << 30, {1e6, 0}), on_each(4, 4));
  EXPECT_NEAR(flat.step_time_s, 170e-6, 20e-6);  // Three quarters, twice.
}

TEST(Replicas, HideTheExchangeBehindTheBackwardPass) {
  // Blocks of 100 us each: all but the first layer's gradients travel during the pass.
  const OpGraph chain = testing::layers_step(std::vector<double>(4, 100), 2, 1000);
  OpGraphBuilder builder;
  builder.set_name("blocks");
  for (std::uint32_t i = 0; i < chain.num_ops(); ++i) {
    OpSpec op = copied_op(chain, OpId{i});
    op.group = "layer/" + op.name.substr(1);
    builder.add(std::move(op));
  }
  const OpGraph graph = std::move(builder).build().value();
  const DeviceSet slow = testing::sample_devices(2, false, 1 << 30, {.bytes_per_s = 1e6, .latency_s = 0});
  PipelineSimulator one{graph, slow, Strategy{2}};
  Measurement alone;
  ASSERT_TRUE(one.measure(Placement(graph.num_ops(), DeviceId{0}), alone).ok());
  const Measurement both = measured(graph, slow, on_each(2, 2));
  EXPECT_LT(both.step_time_s, 0.6 * alone.step_time_s);
  EXPECT_GT(both.step_time_s, 0.5 * alone.step_time_s);
}

TEST(Replicas, TakeNoMemoryForWhatTheyReceive) {
  const OpGraph graph = short_layers(6);
  const DeviceSet devices = testing::sample_devices(3, false, 1 << 30);
  Simulator one{graph, devices};
  Measurement alone;
  ASSERT_TRUE(one.measure(Placement(graph.num_ops(), DeviceId{0}), alone).ok());
  const Measurement three = measured(graph, devices, on_each(3, 3));
  for (std::size_t d = 0; d < 3; ++d) EXPECT_EQ(three.peak_bytes[d], alone.peak_bytes[0]);
}

TEST(Replicas, RunTheirSharesOfTheMicroBatches) {
  const OpGraph graph = testing::layers_step(std::vector<double>(4, 200), 1.5, 1000);  // 2 ms a micro-batch.
  const DeviceSet devices =
      testing::sample_devices(2, false, 1 << 30, {.bytes_per_s = 1e18, .latency_s = 1e-9});
  Strategy strategy = on_each(2, 40);
  const double equal_s = measured(graph, devices, strategy).step_time_s;
  strategy.shares = {30, 10};
  const Measurement uneven = measured(graph, devices, strategy);
  EXPECT_NEAR(equal_s, 20 * 2e-3, 2e-3);
  EXPECT_NEAR(uneven.step_time_s, 30 * 2e-3, 3e-3);
  EXPECT_NEAR(uneven.busy_s[1], 10 * 2e-3, 1e-3);
}

TEST(Replicas, ArePlacedOnDevicesOfTheFirst) {
  const OpGraph graph = short_layers(2);
  const DeviceSet devices = testing::sample_devices(4, false, 1 << 30);
  Strategy strategy{4};
  strategy.replicas = *consecutive_groups(devices, 2);
  PipelineSimulator simulator{graph, devices, strategy};
  Measurement out;
  const auto refused = simulator.measure(Placement(graph.num_ops(), DeviceId{2}), out);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, HasSubstr("gpu:2: is no device of the first replica"));
}

TEST(Strategies, AreRefusedIfTheyCannotBe) {
  const DeviceSet devices = testing::sample_devices(4, true, 1 << 30);
  EXPECT_EQ(consecutive_groups(devices, 2)->back(), (std::vector{DeviceId{3}, DeviceId{4}}));  // No CPU.
  const auto error = [&](const Strategy& strategy) {
    const auto checked = check_strategy(strategy, devices);
    return checked.ok() ? std::string{} : checked.error().context;
  };
  Strategy strategy{6};
  strategy.replicas = {{DeviceId{1}}, {DeviceId{2}}, {DeviceId{3}}};
  EXPECT_EQ(error(strategy), "");
  strategy.micro_batches = 7;
  EXPECT_THAT(error(strategy), HasSubstr("--micro-batches 7: cannot be divided among 3 replicas"));
  strategy.shares = {4, 2, 1};
  EXPECT_EQ(error(strategy), "");
  strategy.shares = {4, 3, 0};
  EXPECT_THAT(error(strategy), HasSubstr("3 numbers above 0 whose sum is 7"));
  strategy.shares = {4, 2, 1};
  strategy.replicas[2] = {DeviceId{1}};
  EXPECT_THAT(error(strategy), HasSubstr("a device that is in two replicas"));
  strategy.replicas[2] = {DeviceId{3}, DeviceId{4}};
  EXPECT_THAT(error(strategy), HasSubstr("different numbers of devices"));
  EXPECT_THAT(consecutive_groups(devices, 3).error().context, HasSubstr("4 devices cannot be divided"));
}

}  // namespace
}  // namespace emplace
