// Goal: under every objective, a placement that a method returns as fitting fits as a step, and its devices
// need at least the memory that a second, plain count finds. Method: random graphs with state, views and
// updates on machines with too little memory; the count is written from docs/guide/objectives.md, with
// nothing of the product in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "executor/split/judge.h"
#include "solver/methods.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

/// What an op reads: a whole tensor, or a part that a smaller view cuts from it.
struct Read {
  TensorId base{}, part{};
  std::int64_t bytes = 0;
};
Read read_of(const OpGraph& graph, TensorId tensor) {
  const OpId maker = graph.producer(tensor);
  if (!graph.is_view(maker)) return {tensor, tensor, graph.bytes(tensor)};
  const Read of = read_of(graph, graph.inputs(maker)[0]);
  return graph.bytes(tensor) >= of.bytes ? of : Read{of.base, tensor, graph.bytes(tensor)};
}

/// [devices] The least memory of each device: its state with the copies that it keeps of others' state and of
/// what the backward pass needs, or its state with all that one op reads and writes.
std::vector<std::int64_t> least_memory(const OpGraph& graph, const Placement& place, std::size_t devices) {
  const auto on = [&](OpId op) { return index(place[index(op)]); };
  std::vector<std::int64_t> state(devices, 0), kept(devices, 0), largest(devices, 0);
  std::set<TensorId> backward;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.is_state(op)) state[on(op)] += graph.output_bytes(op);
    if (graph.phase(op) != Phase::kBackward || graph.is_view(op)) continue;
    for (const TensorId input : graph.inputs(op)) backward.insert(read_of(graph, input).part);
  }
  std::set<std::pair<TensorId, std::size_t>> copied;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.is_state(op) || graph.is_view(op)) continue;
    std::int64_t needs = graph.phase(op) == Phase::kUpdate ? 0 : graph.output_bytes(op);
    std::set<TensorId> seen;
    for (const TensorId input : graph.inputs(op)) {
      const Read read = read_of(graph, input);
      const OpId maker = graph.producer(read.base);
      const bool of_state = graph.is_state(maker), home = on(maker) == on(op);
      if (home && (of_state || graph.phase(maker) == Phase::kUpdate)) continue;  // In place.
      if (seen.insert(home ? read.base : read.part).second)
        needs += home ? graph.bytes(read.base) : read.bytes;
      const bool stays = of_state || (graph.phase(maker) == Phase::kForward && backward.contains(read.part));
      if (!home && stays && copied.emplace(read.part, on(op)).second) kept[on(op)] += read.bytes;
    }
    largest[on(op)] = std::max(largest[on(op)], needs);
  }
  for (std::size_t d = 0; d < devices; ++d) state[d] += std::max(kept[d], largest[d]);
  return state;
}

class MemoryOfMethods : public ::testing::TestWithParam<Objective> {};

TEST_P(MemoryOfMethods, IsThatOfAStepAndOfWhatDevicesKeep) {
  std::size_t fitting = 0, unfit = 0, moving = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng{seed, Purpose::kTest, 9};
    std::int64_t everything = 0;
    const OpGraph graph = testing::random_graph(rng, 10 + rng.below(30));
    for (std::uint32_t op = 0; op < graph.num_ops(); ++op) everything += graph.output_bytes(OpId{op});
    const testing::SampleTask task{
        graph, testing::sample_devices(1 + rng.below(3), rng.below(2) == 0, everything / (2 + rng.below(3)))};
    const CostTable costs{task.graph, task.devices};
    const auto model = make_model(task.graph, task.devices, {.objective = GetParam(), .simulator = {}});
    Simulator step{task.graph, task.devices};
    for (const char* name : {"contiguous", "anneal", "local-search", "m-etf", "random"}) {
      Problem problem{task.graph, task.devices, task.constraints, costs, seed, GetParam()};
      problem.context.evaluations = 60;
      std::size_t polls = 0;
      problem.context.stopped = [&] { return ++polls > 200; };  // Enough but for large ideal graphs.
      const auto answer = find_method(name).value()->find(problem, *model);
      if (!answer) {
        ASSERT_EQ(answer.error().code, Errc::kNoPlacement) << answer.error().context;
        continue;
      }
      const Measurement& measured = answer->measurement;
      Measurement stepped;
      ASSERT_TRUE(step.measure(answer->placement, stepped).ok());
      const auto least = least_memory(task.graph, answer->placement, task.devices.size());
      for (std::size_t d = 0; d < task.devices.size(); ++d) {
        ASSERT_GE(measured.peak_bytes[d], stepped.peak_bytes[d]) << name << " of graph " << seed;
        ASSERT_GE(measured.peak_bytes[d], least[d]) << name << " of graph " << seed;
      }
      unfit += measured.valid ? 0 : 1;
      if (!measured.valid) continue;
      ASSERT_TRUE(stepped.valid) << name << " of graph " << seed;
      for (std::size_t d = 0; d < task.devices.size(); ++d)
        ASSERT_LE(least[d], task.devices[static_cast<DeviceId>(d)].memory_bytes)
            << name << " of graph " << seed;
      ++fitting;
      moving += measured.bytes_moved > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(fitting, 10u);
  EXPECT_GT(unfit, 3u);
  EXPECT_GT(moving, 5u);
}

INSTANTIATE_TEST_SUITE_P(Objectives, MemoryOfMethods,
                         ::testing::Values(Objective::kStepTime, Objective::kThroughput, Objective::kLatency,
                                           Objective::kMaxLoad),
                         [](const auto& test) {
                           std::string name{word_of(test.param)};
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace emplace
