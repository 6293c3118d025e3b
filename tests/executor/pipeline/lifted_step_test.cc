// Goal: the lifted step of a pipeline is the plain step of its unrolled graph, and none is below its bound.
// Method: random training graphs, machines, placements and schedules. Both must agree in the step time, the
// peaks, the busy times and the bytes moved.
#include "executor/pipeline/lifted_step.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "executor/pipeline/pipeline_simulator.h"
#include "executor/sim/simulator.h"
#include "graph/copied_op.h"
#include "graph/memory_plan.h"
#include "placement/bounds/lower_bound.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

/// A random training graph in which every kernel takes time, with an update at its end.
OpGraph random_step(Rng& rng) {
  const OpGraph graph = testing::random_training_graph(rng, 8 + rng.below(40));
  OpGraphBuilder builder;
  builder.set_name("step");
  if (rng.below(2) == 0) builder.set_meta_json(R"({"temporaries": true})");  // Updates hold memory.
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    OpSpec op = copied_op(graph, OpId{i});
    for (auto& [kind, us] : op.measured_us) us = std::max(us, 0.5);
    op.phase = i < graph.num_ops() / 2 ? Phase::kForward : Phase::kBackward;
    if (op.type == "Parameter" && rng.below(3) == 0) {
      op.type = "Input";
      op.param_bytes = 0;
    }
    builder.add(std::move(op));
  }
  const auto last = static_cast<std::uint32_t>(graph.num_ops() - 1);
  for (std::uint32_t k = 0; k < 3; ++k) {
    OpSpec op{.name = "update" + std::to_string(k),
              .type = "Work",
              .inputs = {{last - rng.below(last / 2), 0}},
              .outputs = {{DType::kU8, {1 + rng.below(500)}}},
              .phase = Phase::kUpdate,
              .measured_us = {{"gpu", 1 + rng.below(5)}, {"cpu", 7}}};
    if (k > 0) op.inputs.push_back({static_cast<std::uint32_t>(graph.num_ops()) + k - 1, 0});
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

/// Replicas on the devices of a machine, and its micro-batches; in half of the cases their shares differ.
Strategy random_replicas(Rng& rng, const DeviceSet& devices, Strategy strategy) {
  const auto replicas = 2 + rng.below(static_cast<std::uint32_t>(devices.size()) - 1);
  const std::size_t each = devices.size() / replicas;
  for (std::uint32_t r = 0; r < replicas; ++r) {
    std::vector<DeviceId>& group = strategy.replicas.emplace_back();
    for (std::size_t k = 0; k < each; ++k) group.push_back(static_cast<DeviceId>(k * replicas + r));
  }
  strategy.micro_batches = replicas * (1 + rng.below(3));
  if (rng.below(2) == 0) return strategy;
  strategy.micro_batches = 0;
  for (std::uint32_t r = 0; r < replicas; ++r)
    strategy.micro_batches += strategy.shares.emplace_back(1 + rng.below(4));
  return strategy;
}

/// A placement with stages: a few changes of device along the ops.
Placement staged_placement(Rng& rng, const OpGraph& graph, std::size_t devices) {
  if (rng.below(4) == 0) return testing::random_placement(rng, graph.num_ops(), devices);
  Placement placement(graph.num_ops());
  const std::uint32_t stages = 1 + rng.below(4);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const bool back = graph.phase(OpId{i}) != Phase::kForward;
    const auto n = static_cast<std::uint32_t>(graph.num_ops());
    const std::uint32_t at = back ? n - i : i;
    placement[i] = static_cast<DeviceId>(at * 2 * stages / n % devices);
  }
  return placement;
}

TEST(LiftedStep, EqualsTheUnrolledGraph) {
  constexpr int kCases = 2000;
  std::size_t with_pipelines = 0, with_replicas = 0, left_out = 0, bounded = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 60};
    OpGraph graph = random_step(rng);
    const std::size_t gpus = 1 + rng.below(4);
    DeviceSet devices = testing::sample_devices(gpus, rng.below(2) == 0, rng.below(2) == 0 ? 20'000 : 80'000);
    if (rng.below(3) == 0 && devices.size() > 1) devices = testing::with_random_sharing(rng, devices);
    if (rng.below(3) == 0) {
      MemoryPlan plan = testing::random_plan(rng, graph, devices.size());
      plan.moved.clear();
      std::vector<std::string> names;
      for (std::size_t d = 0; d < devices.size(); ++d)
        names.push_back(devices[static_cast<DeviceId>(d)].name);
      if (auto with_plan = planned(graph, plan, names)) graph = std::move(with_plan->graph);
    }
    Strategy strategy{1 + rng.below(6),
                      rng.below(2) == 0 ? PipelineSchedule::kGPipe : PipelineSchedule::k1F1B};
    if (devices.size() > 1 && rng.below(2) == 0) strategy = random_replicas(rng, devices, strategy);
    const std::size_t used = strategy.replicas.empty() ? devices.size() : strategy.replicas[0].size();
    PipelineSimulator lifted{graph, devices, strategy};
    Placement placement = staged_placement(rng, graph, used);
    if (!strategy.replicas.empty())
      for (DeviceId& device : placement) device = strategy.replicas[0][index(device)];
    Measurement fast, plain;
    ASSERT_TRUE(lifted.measure(placement, fast).ok());
    const auto step = lifted.unroll(placement);
    if (!step.ok()) {  // A view of several tensors.
      ASSERT_EQ(step.error().code, Errc::kUnsupported);
      ++left_out;
      continue;
    }
    const CostTable costs{lifted.micro_batch().graph, devices};
    Simulator simulator{step->graph, devices, CostTable{costs, step->source}};
    ASSERT_TRUE(simulator.measure(step->placement, plain).ok());
    ASSERT_EQ(fast.step_time_s, plain.step_time_s);
    ASSERT_EQ(fast.bytes_moved, plain.bytes_moved);
    ASSERT_EQ(fast.peak_bytes, plain.peak_bytes);
    ASSERT_EQ(fast, plain);
    if (fast.valid) {  // The bound is about steps that fit.
      const auto constraints = Constraints::make(graph, devices);
      ASSERT_TRUE(constraints.ok());
      ASSERT_GE(fast.step_time_s, strategy_bound(graph, devices, *constraints, strategy).seconds);
      ++bounded;
    }
    with_pipelines += lifted.chunks(placement)->size() > 4 && strategy.micro_batches > 1;
    with_replicas += strategy.num_replicas() > 1 && fast.bytes_moved > 0;
  }
  EXPECT_GT(with_pipelines, kCases / 3);
  EXPECT_GT(with_replicas, kCases / 5);
  EXPECT_GT(bounded, kCases / 10);
  EXPECT_LT(left_out, kCases / 10);
}

}  // namespace
}  // namespace emplace
