// Cost of the lower bounds. Budget: under 0.5 s at 25,000 ops and 9 devices, under 2 s at 84,000 ops, so
// that every table can include them.

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "placement/bounds/feasibility.h"
#include "placement/bounds/lower_bound.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

DeviceSet nine_devices(bool alike) {
  std::vector<Device> devices{{"cpu:0", *find_profile("haswell18"), std::int64_t{256} << 30, ""}};
  constexpr const char* kKinds[] = {"k40", "v100", "h100", "h200", "k80_gk210"};
  for (std::size_t k = 0; k < 8; ++k)
    devices.push_back(
        {fmt::format("gpu:{}", k), *find_profile(alike ? "k40" : kKinds[k % 5]), std::int64_t{12} << 30, ""});
  return *DeviceSet::make(std::move(devices), {.bytes_per_s = 12e9, .latency_s = 1e-5});
}

// Args: ops; 1 for eight GPUs of one kind, 0 for five kinds. The counter is the bound [s].
void BM_Bound(benchmark::State& state) {
  Rng rng{7, Purpose::kTest};
  const OpGraph graph = testing::layered_graph(rng, static_cast<std::uint32_t>(state.range(0)));
  const DeviceSet devices = nine_devices(state.range(1) == 1);
  const Constraints constraints = Constraints::make(graph, devices).value();
  const CostTable costs{graph, devices};
  LowerBound bound;
  for (auto _ : state) benchmark::DoNotOptimize(bound = lower_bound(graph, devices, constraints, costs));
  state.counters["bound_s"] = bound.seconds();
}
BENCHMARK(BM_Bound)->ArgsProduct({{1000, 25'000, 84'000}, {1, 0}})->Unit(benchmark::kMillisecond);

// Worst case: memory is too small for any placement, so the bound examines the tensors alive at each point.
void BM_MustFit(benchmark::State& state) {
  Rng rng{7, Purpose::kTest};
  const OpGraph graph = testing::layered_graph(rng, static_cast<std::uint32_t>(state.range(0)));
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  const Constraints constraints = Constraints::make(graph, devices).value();
  std::optional<MemoryShortfall> shortfall;
  for (auto _ : state) benchmark::DoNotOptimize(shortfall = memory_shortfall(graph, devices, constraints));
  state.counters["short_bytes"] = shortfall ? static_cast<double>(shortfall->short_bytes) : 0;
}
BENCHMARK(BM_MustFit)->Arg(1000)->Arg(25'000)->Arg(84'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
