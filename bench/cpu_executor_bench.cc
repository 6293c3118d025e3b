// Overhead of running a task beyond its kernel: chains of small ops on one core, and alternating between
// two cores, where each op waits for a copy. Time is the step time; `us_per_task` is the total per task,
// `kernel_us` the part inside kernels.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <string>

#include "base/clock.h"
#include "executor/cpu/cpu_executor.h"
#include "graph/formats/graph_file.h"

namespace {

using namespace emplace;

constexpr std::uint32_t kOps = 2000;

OpGraph chain(std::int64_t elements) {
  OpGraphBuilder builder;
  const TensorSpec tensor{DType::kF32, {elements}};
  builder.add({.name = "x", .type = "Input", .inputs = {}, .outputs = {tensor}});
  for (std::uint32_t i = 0; i < kOps; ++i)
    builder.add(
        {.name = fmt::format("op{}", i), .type = "aten::tanh", .inputs = {{i, 0}}, .outputs = {tensor}});
  return *std::move(builder).build();
}

DeviceSet cores(std::size_t count) {
  std::vector<Device> devices;
  for (std::size_t d = 0; d < count; ++d)
    devices.push_back({fmt::format("cpu:{}", d), *find_profile("haswell18"), std::int64_t{1} << 28, ""});
  return DeviceSet::make(std::move(devices), Link{10e9, 1e-6})->with_copies(CopyEngine::kTarget);
}

void steps(benchmark::State& state, std::size_t devices, std::size_t tasks) {
  const OpGraph graph = chain(state.range(0));
  const DeviceSet machine = cores(devices);
  const SystemClock clock;
  const auto executor = cpu::CpuExecutor::make(
      graph, machine, {.timing = {.warmups = 1, .samples = 5, .most_samples = 5}}, clock);
  Placement placement(graph.num_ops());
  for (std::size_t op = 0; op < placement.size(); ++op) placement[op] = static_cast<DeviceId>(op % devices);
  Measurement measured;
  for (auto _ : state) {
    if (auto done = (*executor)->measure(placement, measured); !done || !measured.valid)
      return state.SkipWithError("chain did not run");
    state.SetIterationTime(measured.step_time_s);
  }
  double busy_s = 0;
  for (const double seconds : measured.busy_s) busy_s += seconds;
  const auto count = static_cast<double>(tasks);
  state.counters["us_per_task"] = measured.step_time_s * 1e6 / count;
  state.counters["kernel_us"] = busy_s * 1e6 / kOps;
  state.counters["beside_us"] = (measured.step_time_s - busy_s) * 1e6 / count;
}

void one_device(benchmark::State& state) { steps(state, 1, kOps); }
void back_and_forth(benchmark::State& state) { steps(state, 2, 2 * kOps); }

BENCHMARK(one_device)->Arg(64)->Arg(16384)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(back_and_forth)->Arg(64)->Arg(16384)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
