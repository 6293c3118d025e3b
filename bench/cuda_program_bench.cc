// Host time that the CUDA executor needs for a placement before its first step: plan, order and program, on
// one core, without a GPU. Budget: 30 ms for NMT-2. While a placement is measured another thread does this
// for the next one.
#include <benchmark/benchmark.h>

#include "executor/cuda/program/step_program.h"
#include "executor/cuda/program/task_order.h"
#include "executor/sim/simulator.h"
#include "graph/models/catalogue.h"
#include "tests/executor/cuda/enqueued.h"
#include "tests/support/sample_graphs.h"

namespace {

using namespace emplace;

void prepare(benchmark::State& state, const char* model, std::size_t count) {
  const OpGraph graph = models::model_graph(*models::find_model(model), {}, {.training = true}).value();
  const DeviceSet devices = testing::sample_devices(count, false, std::int64_t{64} << 30, {25e9, 20e-6});
  Placement placement(graph.num_ops());  // Stretches of a hundred ops, so that there are many copies.
  for (std::size_t op = 0; op < placement.size(); ++op)
    placement[op] = static_cast<DeviceId>(op / 100 % count);
  const testing::Enqueued machine{graph, devices, placement, 1};
  Simulator simulator{graph, devices};
  const cuda::HostStages stages = cuda::stages_for(count);
  std::size_t instructions = 0;
  for (auto _ : state) {
    const TaskPlan plan{machine.lowered, count, placement, TaskPlan::Rules::kReal, &machine.in_place};
    Measurement simulated;
    Schedule schedule;
    if (!simulator.trace(placement, simulated, schedule)) state.SkipWithError("not simulated");
    const cuda::StepProgram program{
        {machine.lowered, *machine.group, machine.kernels, stages}, plan, cuda::task_order(plan, schedule)};
    instructions = program.instructions().size();
    benchmark::DoNotOptimize(instructions);
  }
  state.counters["ops"] = static_cast<double>(graph.num_ops());
  state.counters["instructions"] = static_cast<double>(instructions);
}

BENCHMARK_CAPTURE(prepare, nmt_on_1, "nmt", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prepare, nmt_on_2, "nmt", 2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prepare, nmt_on_8, "nmt", 8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prepare, rnnlm_on_2, "rnnlm", 2)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
