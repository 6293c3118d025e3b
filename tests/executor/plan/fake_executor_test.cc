// Goal: the task plan that real executors follow obeys the simulator's rules exactly, and its additions for
// real memory (hazards, a full arena) are right. Method: a virtual clock against the simulator on thousands
// of seeded random graphs; a checker of every write and read; caps below the peak.
#include "executor/plan/fake_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::random_graph;
using testing::random_placement;
using testing::sample_devices;

constexpr std::int64_t kPlenty = std::int64_t{1} << 50;
constexpr FakeOptions kAsSimulated{TaskPlan::Rules::kSimulated, Dispatch::kProgram, 1, false};

struct Case {
  OpGraph graph;
  DeviceSet devices;
  Placement placement;
};
Case random_case(std::uint64_t seed, std::int64_t memory = kPlenty) {
  Rng rng{seed, Purpose::kTest};
  const std::size_t gpus = 1 + rng.below(4);
  OpGraph graph = random_graph(rng, 8 + rng.below(60));
  const CopyEngine engine = rng.below(2) == 0 ? CopyEngine::kSource : CopyEngine::kTarget;
  DeviceSet devices = sample_devices(gpus, rng.below(2) == 0, memory, {1e9, 1e-9 * rng.below(3000)})
                          .with_copies(engine)
                          .with_corun(1 + 0.25 * rng.below(3));
  if (engine == CopyEngine::kSource && rng.below(2) == 0)
    devices = testing::with_random_sharing(rng, std::move(devices));
  Placement placement = random_placement(rng, graph.num_ops(), devices.size());
  return {std::move(graph), std::move(devices), std::move(placement)};
}

TEST(FakeExecutorTest, EqualsTheSimulatorToTheNanosecond) {
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const Case c = random_case(seed);
    FakeOptions options = kAsSimulated;
    options.dispatch = seed % 3 == 0 ? Dispatch::kFifo : Dispatch::kProgram;
    Measurement simulated, faked;
    Schedule simulated_schedule, faked_schedule;
    Simulator simulator{c.graph, c.devices, {.dispatch = options.dispatch}};
    ASSERT_TRUE(simulator.trace(c.placement, simulated, simulated_schedule));
    ASSERT_TRUE(FakeExecutor(c.graph, c.devices, options).trace(c.placement, faked, faked_schedule));
    ASSERT_EQ(simulated, faked) << "seed " << seed;
    ASSERT_EQ(simulated_schedule.ops.size(), faked_schedule.ops.size());
    ASSERT_EQ(simulated_schedule.transfers.size(), faked_schedule.transfers.size());
    for (std::size_t i = 0; i < faked_schedule.ops.size(); ++i) {
      ASSERT_EQ(simulated_schedule.ops[i].op, faked_schedule.ops[i].op) << "seed " << seed;
      ASSERT_EQ(simulated_schedule.ops[i].start_s, faked_schedule.ops[i].start_s);
    }
    for (std::size_t i = 0; i < faked_schedule.transfers.size(); ++i) {
      ASSERT_EQ(simulated_schedule.transfers[i].tensor, faked_schedule.transfers[i].tensor)
          << "seed " << seed;
      ASSERT_EQ(simulated_schedule.transfers[i].start_s, faked_schedule.transfers[i].start_s);
    }
  }
}

TEST(FakeExecutorTest, DeviceThatCopiesRunsNoOp) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed);
    if (c.devices.copies() != CopyEngine::kTarget) continue;
    Measurement measured;
    Schedule schedule;
    ASSERT_TRUE(Simulator(c.graph, c.devices).trace(c.placement, measured, schedule));
    for (const TransferRun& copy : schedule.transfers)
      for (const OpRun& op : schedule.ops)
        ASSERT_TRUE(op.device != copy.target || op.end_s <= copy.start_s || copy.end_s <= op.start_s) << seed;
  }
}

TEST(FakeExecutorTest, NineTenthsOfThePeakIsOutOfMemoryAndDoesNotAffectTheNextRun) {
  int seen = 0;
  for (std::uint64_t seed = 0; seen < 100; ++seed) {
    const Case roomy = random_case(seed);
    Measurement whole;
    FakeOptions options{.alignment = 1};
    ASSERT_TRUE(FakeExecutor(roomy.graph, roomy.devices, options).measure(roomy.placement, whole));
    ASSERT_TRUE(whole.valid);
    const std::int64_t peak = *std::ranges::max_element(whole.peak_bytes);
    if (peak < 100) continue;
    ++seen;
    Case tight = random_case(seed, peak * 9 / 10);
    FakeExecutor executor{tight.graph, tight.devices, options};
    for (int i = 0; i < 3; ++i) {
      Measurement out;
      ASSERT_TRUE(executor.measure(tight.placement, out));
      ASSERT_FALSE(out.valid) << seed;
      ASSERT_TRUE(out.failure.starts_with("oom: ")) << out.failure;
      ASSERT_GT(out.bytes_over, 0);
    }
  }
}

/// Checks the memory of a plan, task by task, in any order that its waits allow.
void expect_every_read_finds_its_tensor(const TaskPlan& plan, Rng& rng) {
  const LoweredGraph& lowered = plan.lowered();
  const OpGraph& graph = lowered.graph();
  // The tensor in each slot; state slots start with the state itself.
  std::vector<std::uint32_t> holds(plan.slots().size(), TaskPlan::kNone), waits, uses;
  std::vector<bool> live(plan.slots().size(), false);
  for (std::uint32_t s = 0; s < plan.slots().size(); ++s) {
    uses.push_back(plan.slots()[s].uses);
    if (!plan.slots()[s].resident) continue;
    live[s] = true;
    if (index(plan.slots()[s].buffer) != TaskPlan::kNone)
      holds[s] = static_cast<std::uint32_t>(index(plan.slots()[s].buffer));
  }
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) waits.push_back(plan.waits(t));
  std::vector<std::uint32_t> ready(plan.sources().begin(), plan.sources().end());
  std::size_t done = 0;
  while (!ready.empty()) {
    const std::size_t pick = rng.below(static_cast<std::uint32_t>(ready.size()));
    const std::uint32_t t = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    const TaskPlan::Task& task = plan.tasks()[t];
    for (const std::uint32_t slot : plan.takes(t)) {
      ASSERT_FALSE(live[slot]);
      live[slot] = true;
    }
    if (task.is_copy) {
      const BufferId buffer{task.what};
      ASSERT_EQ(holds[plan.home_slot(buffer)], index(lowered.base(buffer))) << "copied too late or too early";
      holds[plan.copy_slot(t)] = task.what;
    } else {
      const OpId op{task.what};
      for (const BufferId buffer : lowered.reads(op)) {
        const std::uint32_t slot = plan.read_slot(op, buffer);
        ASSERT_NE(slot, TaskPlan::kNone);
        ASSERT_TRUE(live[slot]);
        ASSERT_EQ(holds[slot], index(plan.reads_copy(op, buffer) ? buffer : lowered.base(buffer)))
            << graph.name(op) << " reads a tensor that is not (or no longer) there";
      }
      for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b)
        if (lowered.base(BufferId{b}) == BufferId{b}) holds[plan.home_slot(BufferId{b})] = b;
    }
    for (const std::uint32_t next : plan.successors(t))
      if (--waits[next] == 0) ready.push_back(next);
    for (const std::uint32_t slot : plan.uses(t))
      if (--uses[slot] == 0) live[slot] = false, holds[slot] = TaskPlan::kNone;
    ++done;
  }
  ASSERT_EQ(done, plan.tasks().size()) << "tasks wait for one another";
  for (std::uint32_t s = 0; s < plan.slots().size(); ++s)
    EXPECT_EQ(live[s], plan.slots()[s].resident) << "memory was not released";
}

/// Parameters that optimisers update: two accumulating ops each, and readers before them.
OpGraph training_graph(Rng& rng) {
  OpGraphBuilder builder;
  const auto tensor = [](std::int64_t n) { return TensorSpec{DType::kF32, {n}}; };
  std::vector<std::uint32_t> params, values;
  for (std::uint32_t i = 0; i < 5; ++i) {
    OpSpec state{.name = "p" + std::to_string(i), .type = "Parameter", .inputs = {}, .outputs = {tensor(8)}};
    params.push_back(static_cast<std::uint32_t>(index(builder.add(std::move(state)))));
  }
  for (std::uint32_t i = 0; i < 12; ++i) {
    OpSpec op{.name = "f" + std::to_string(i), .type = "Work", .inputs = {}, .outputs = {tensor(8)}};
    op.inputs.push_back({params[rng.below(5)], 0});
    if (!values.empty())
      op.inputs.push_back({values[rng.below(static_cast<std::uint32_t>(values.size()))], 0});
    values.push_back(static_cast<std::uint32_t>(index(builder.add(std::move(op)))));
  }
  for (std::uint32_t i = 0; i < 5; ++i) {
    std::uint32_t at = params[i];
    for (int k = 0; k < 2; ++k) {
      OpSpec op{.name = "u" + std::to_string(i) + "." + std::to_string(k),
                .type = rng.below(4) == 0 ? "aten::sqrt" : "aten::add",
                .inputs = {{at, 0}, {values[rng.below(12)], 0}},
                .outputs = {tensor(8)}};
      op.phase = Phase::kUpdate;
      at = static_cast<std::uint32_t>(index(builder.add(std::move(op))));
    }
    if (rng.below(2) == 0) {  // A reader of the old value after its update.
      OpSpec late{.name = "late" + std::to_string(i),
                  .type = "Work",
                  .inputs = {{params[i], 0}},
                  .outputs = {tensor(8)}};
      builder.add(std::move(late));
    }
  }
  return *std::move(builder).build();
}

TEST(TaskPlanTest, EveryReadFindsItsTensorInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = seed % 2 == 0 ? random_graph(rng, 40) : training_graph(rng);
    const std::size_t devices = 1 + rng.below(3);
    const Placement placement = random_placement(rng, graph.num_ops(), devices);
    const LoweredGraph lowered{graph};
    const InPlaceWrites writes{lowered};
    const TaskPlan plan{lowered, devices, placement, TaskPlan::Rules::kReal, &writes};
    expect_every_read_finds_its_tensor(plan, rng);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(TaskPlanTest, OptimiserOverwritesOnlyItsState) {
  OpGraphBuilder builder;
  const TensorSpec tensor{DType::kF32, {8}};
  builder.add({.name = "p", .type = "Parameter", .inputs = {}, .outputs = {tensor}});
  builder.add({.name = "m", .type = "OptimizerState", .inputs = {}, .outputs = {tensor}});
  builder.add({.name = "g", .type = "Work", .inputs = {{0, 0}}, .outputs = {tensor}});
  const auto update = [&](const char* name, const char* type, std::vector<EdgeSpec> inputs) {
    OpSpec op{.name = name, .type = type, .inputs = std::move(inputs), .outputs = {tensor}};
    op.phase = Phase::kUpdate;
    return builder.add(std::move(op));
  };
  const OpId decayed = update("decay", "aten::mul", {{1, 0}});
  const OpId moment = update("moment", "aten::add", {{3, 0}, {2, 0}});
  const OpId root = update("root", "aten::sqrt", {{4, 0}});
  const OpId step = update("step", "aten::addcdiv", {{0, 0}, {4, 0}, {5, 0}});
  const OpGraph graph = *std::move(builder).build();
  const LoweredGraph lowered{graph};
  const InPlaceWrites writes{lowered};
  EXPECT_EQ(writes.state_written(decayed), OpId{1});
  EXPECT_EQ(writes.state_written(moment), OpId{1});
  EXPECT_EQ(writes.state_written(root), kNoOp);
  EXPECT_EQ(writes.state_written(step), OpId{0});
  const Placement one(graph.num_ops(), DeviceId{0});
  const TaskPlan plan{lowered, 1, one, TaskPlan::Rules::kReal, &writes};
  EXPECT_EQ(plan.home_slot(lowered.buffer(graph.output(step, 0))),
            plan.home_slot(lowered.buffer(graph.output(OpId{0}, 0))));
  EXPECT_NE(plan.home_slot(lowered.buffer(graph.output(root, 0))),
            plan.home_slot(lowered.buffer(graph.output(OpId{1}, 0))));
}

}  // namespace
}  // namespace emplace
