// Cost of heuristic placement, including all attempts and their measurements. Budgets at 25k ops: 1 s for
// m-etf; library time plus 100 ms for scotch, mincut and metis. Graphs: layered random DAGs of several
// sizes on four GPUs (12,000 MB each; and 40 MB, where memory is the bottleneck), and a network on a CPU
// and four GPUs (12,000 and 1,300 MB): the shipped graph, or the file named by EMPLACE_GRAPH. Counters: the
// result, step_ms, and the time in libraries, library_ms.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/device_file.h"
#include "solver/heuristics.h"
#include "solver/list/favourite_children.h"
#include "solver/methods.h"
#include "solver/partitioners/partition_graph.h"
#include "solver/search/anneal.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

constexpr std::size_t kGpus = 4;

DeviceSet machine(std::int64_t memory, bool cpu = true) {
  std::vector<Device> devices;
  if (cpu) devices.push_back({"cpu:0", *find_profile("haswell18"), std::int64_t{1} << 38, ""});
  for (std::size_t k = 0; k < kGpus; ++k)
    devices.push_back({fmt::format("gpu:{}", k), *find_profile("k40"), memory, ""});
  return *DeviceSet::make(std::move(devices), Link{.bytes_per_s = 12e9, .latency_s = 10e-6});
}

void measure(benchmark::State& state, const std::string& name, const OpGraph& graph,
             const DeviceSet& devices) {
  const Constraints constraints = Constraints::make(graph, devices).value();
  Simulator simulator{graph, devices};
  const Problem problem{graph, devices, constraints, simulator.costs()};
  const Method* method = find_method(name).value();
  const std::int64_t before = partitioner_ns();
  Measurement measured;
  std::uint64_t evaluations = 0;
  for (auto _ : state) {
    const auto found = method->find(problem, simulator);
    if (!found) {
      state.SkipWithError(found.error().context.c_str());
      return;
    }
    measured = found->measurement;
    evaluations = found->evaluations;
  }
  state.counters["step_ms"] = measured.step_time_s * 1e3;
  state.counters["fits"] = measured.valid ? 1 : 0;
  state.counters["evaluations"] = static_cast<double>(evaluations);
  state.counters["library_ms"] =
      static_cast<double>(partitioner_ns() - before) * 1e-6 / static_cast<double>(state.iterations());
}

void on_layered(benchmark::State& state, const std::string& name) {
  Rng rng{7, Purpose::kTest};
  const auto ops = static_cast<std::uint32_t>(state.range(0));
  measure(state, name, testing::layered_graph(rng, ops), machine(state.range(1) * 1'000'000, /*cpu=*/false));
}

void on_nmt(benchmark::State& state, const std::string& name) {
  const std::filesystem::path configs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";
  const char* other = std::getenv("EMPLACE_GRAPH");
  const auto path =
      other != nullptr ? std::filesystem::path{other} : configs / "graphs/nmt-2layer-bs64.json.gz";
  measure(state, name, load_graph(path).value(), machine(state.range(0) * 1'000'000));
}

/// Moves of annealing per second of processor time: 4,000 evaluations from the best of three heuristics, on
/// the Hierarchical Planner's machine with this number of GPUs.
void BM_AnnealMoves(benchmark::State& state) {
  const std::filesystem::path configs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";
  const char* other = std::getenv("EMPLACE_GRAPH");
  const OpGraph graph =
      load_graph(other != nullptr ? std::filesystem::path{other} : configs / "graphs/nmt-2layer-bs64.json.gz")
          .value();
  const DeviceSet devices =
      load_devices(configs / "devices" / fmt::format("hierarchical-{}gpu.toml", state.range(0)), 0).value();
  const Constraints constraints = Constraints::make(graph, devices).value();
  Simulator simulator{graph, devices};
  Problem problem{graph, devices, constraints, simulator.costs(), 1};
  std::vector<Answer> starts;
  for (const char* name : {"m-etf", "expert", "metis"}) {
    auto found = find_method(name).value()->find(problem, simulator);
    if (!found) continue;
    found->evaluations = 0;
    starts.push_back(*std::move(found));
  }
  problem.context = {.evaluations = 4'000, .starts = starts};
  Answer found;
  for (auto _ : state) found = Anneal{AnnealOptions{}}.find(problem, simulator).value();
  state.counters["step_ms"] = found.measurement.step_time_s * 1e3;
  state.counters["moves"] = benchmark::Counter(static_cast<double>(found.evaluations),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_AnnealMoves)->Arg(2)->Arg(4)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_FavouriteChildren(benchmark::State& state) {
  Rng rng{7, Purpose::kTest};
  const OpGraph graph = testing::layered_graph(rng, static_cast<std::uint32_t>(state.range(0)));
  const DeviceSet devices = machine(std::int64_t{12} << 30);
  const Constraints constraints = Constraints::make(graph, devices).value();
  const CostTable costs{graph, devices};
  const ListTask task{{graph, devices, constraints, costs}};
  double favourites = 0;
  for (auto _ : state) {
    favourites = 0;
    const auto found = favourite_children(task, static_cast<std::size_t>(state.range(1))).value();
    for (const OpId child : found) favourites += child == kNoOp ? 0 : 1;
  }
  state.counters["favourites"] = favourites;
}
BENCHMARK(BM_FavouriteChildren)
    ->Args({1000, 250})
    ->Args({1000, 500})
    ->Args({1000, 1000})
    ->Args({25000, 250})
    ->Args({25000, 500})
    ->Args({25000, 2000})
    ->Unit(benchmark::kMillisecond);

void register_all() {
  for (const char* name :
       {"expert", "contiguous", "scotch", "mincut", "metis", "m-topo", "m-etf", "m-sct", "heft"}) {
    const std::string method = name;
    benchmark::RegisterBenchmark(("BM_Layered/" + method).c_str(),
                                 [method](benchmark::State& state) { on_layered(state, method); })
        ->Args({1000, 12000})
        ->Args({25000, 12000})
        ->Args({25000, 40})
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("BM_Nmt/" + method).c_str(),
                                 [method](benchmark::State& state) { on_nmt(state, method); })
        ->Arg(12000)  // GPU memory [MB].
        ->Arg(1300)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace emplace

int main(int argc, char** argv) {
  emplace::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
