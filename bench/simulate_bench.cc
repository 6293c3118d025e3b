// Cost of a simulated step. Budget: Placeto's model at most 30 ns per op + edge on one core at 84k ops; the
// default model (issue order, links, memory) at most twice that. Floor: about 5 MB of compulsory traffic at
// 84k ops, 0.05 ms from L3, 0.22 ms from DRAM; the rest is dependent loads and unpredictable branches.
//
// Graphs: layered random DAGs, seed 7. The graphs of 1k and 10k ops ship with the tests; others are read
// from the folder EMPLACE_DAGS (NODES.txt) or generated. Real graphs come from configs/graphs or from the
// folder EMPLACE_GRAPHS_DIR, or are generated; the label states the source. Placement: splitmix64, k = 0, 5
// devices. Counter: the simulated step time, step_us.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "executor/sim/placeto_simulator.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "graph/lowering.h"
#include "graph/models/catalogue.h"
#include "placement/machine/device_file.h"
#include "solver/partitioners/groups.h"
#include "tests/support/reference_dag.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

constexpr std::size_t kDevices = 5;

testing::ReferenceDag load(benchmark::State& state) {
  const std::string ops = std::to_string(state.range(0));
  const char* folder = std::getenv("EMPLACE_DAGS");
  std::filesystem::path path =
      std::filesystem::path{EMPLACE_FIXTURES} / "dags" / ("layered-" + ops + ".txt.gz");
  if (!std::filesystem::exists(path) && folder != nullptr)
    path = std::filesystem::path{folder} / (ops + ".txt");
  if (auto dag = testing::read_reference_dag(path)) return *std::move(dag);
  state.SetLabel("generated");
  Rng rng{7, Purpose::kTest};
  testing::ReferenceDag made{testing::layered_graph(rng, static_cast<std::uint32_t>(state.range(0))), {}};
  for (std::size_t op = 0; op < made.graph.num_ops(); ++op) made.cost_us.push_back(1 + rng.below(50));
  return made;
}

void report(benchmark::State& state, const OpGraph& graph, double step_us) {
  const auto per_step = static_cast<double>(graph.num_ops() + graph.num_edges());
  state.counters["step_us"] = step_us;
  state.counters["per_op_edge"] = benchmark::Counter(
      per_step, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_Placeto(benchmark::State& state) {
  const auto dag = load(state);
  PlacetoSimulator simulator{dag.graph, dag.cost_us, std::vector<std::size_t>(kDevices, 0)};
  const Placement placement = testing::reference_placement(dag.graph.num_ops(), 0, kDevices);
  double step_us = 0;
  for (auto _ : state) step_us = simulator.run_time_us(placement);
  report(state, dag.graph, step_us);
}
BENCHMARK(BM_Placeto)->Arg(1000)->Arg(10000)->Arg(25000)->Arg(83712)->Unit(benchmark::kMicrosecond);

void run_default(benchmark::State& state, Dispatch dispatch) {
  const auto dag = load(state);
  const DeviceSet devices = testing::sample_devices(kDevices, false, std::int64_t{1} << 50, {7.6e9, 25e-6});
  Simulator simulator{dag.graph, devices, {dispatch}};
  const Placement placement = testing::reference_placement(dag.graph.num_ops(), 0, kDevices);
  Measurement out;
  for (auto _ : state) benchmark::DoNotOptimize(simulator.measure(placement, out).ok());
  report(state, dag.graph, out.step_time_s * 1e6);
}
void BM_DefaultProgramOrder(benchmark::State& state) { run_default(state, Dispatch::kProgram); }
void BM_DefaultFifo(benchmark::State& state) { run_default(state, Dispatch::kFifo); }
BENCHMARK(BM_DefaultProgramOrder)
    ->Arg(1000)
    ->Arg(10000)
    ->Arg(25000)
    ->Arg(83712)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_DefaultFifo)->Arg(1000)->Arg(10000)->Arg(83712)->Unit(benchmark::kMicrosecond);

/// Four hosts of eight GPUs: with a copy engine per GPU only, with a NIC that the GPUs of a host share, and
/// with any number of copies at once. Counter: time per op and edge.
void BM_Hosts(benchmark::State& state) {
  constexpr std::size_t kHosts = 4, kGpus = 8;
  const auto dag = load(state);
  DeviceSet devices = testing::sample_devices(kHosts * kGpus, false, std::int64_t{1} << 50, {7.6e9, 25e-6});
  if (state.range(1) == 1) {
    std::vector<SharedLink> nics(kHosts);
    for (std::size_t h = 0; h < kHosts; ++h) {
      nics[h].name = fmt::format("nic {}", h);
      for (std::size_t g = 0; g < kGpus; ++g) nics[h].devices.push_back(static_cast<DeviceId>(h * kGpus + g));
    }
    devices = devices.with_shared(std::move(nics)).value();
  } else if (state.range(1) == 2) {
    devices = devices.with_engines(std::vector<std::uint32_t>(devices.size(), kUnlimited)).value();
  }
  state.SetLabel(std::array{"own engines", "shared NICs",
                            "any number of copies"}[static_cast<std::size_t>(state.range(1))]);
  Simulator simulator{dag.graph, devices};
  const Placement placement = testing::reference_placement(dag.graph.num_ops(), 0, devices.size());
  Measurement out;
  for (auto _ : state) benchmark::DoNotOptimize(simulator.measure(placement, out).ok());
  report(state, dag.graph, out.step_time_s * 1e6);
}
BENCHMARK(BM_Hosts)->ArgsProduct({{1000, 10000, 83712}, {0, 1, 2}})->Unit(benchmark::kMicrosecond);

/// Two workers with a simulator each: evaluations per second of wall time relative to one worker.
void BM_PlacetoWorkers(benchmark::State& state) {
  const auto dag = load(state);
  const auto workers = static_cast<std::size_t>(state.range(1));
  std::vector<std::unique_ptr<PlacetoSimulator>> simulators;
  for (std::size_t w = 0; w < workers; ++w) {
    simulators.push_back(
        std::make_unique<PlacetoSimulator>(dag.graph, dag.cost_us, std::vector<std::size_t>(kDevices, 0)));
  }
  const Placement placement = testing::reference_placement(dag.graph.num_ops(), 0, kDevices);
  constexpr int kEach = 20;
  double step_us = 0;
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (std::size_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        for (int i = 0; i < kEach; ++i) {
          const double us = simulators[w]->run_time_us(placement);
          if (w == 0) step_us = us;
        }
      });
    }
  }
  state.counters["step_us"] = step_us;
  state.counters["evals"] =
      benchmark::Counter(static_cast<double>(workers) * kEach, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_PlacetoWorkers)
    ->Args({1000, 1})
    ->Args({1000, 2})
    ->Args({83712, 1})
    ->Args({83712, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// The usual start of searches: the issue order cut by cost, one piece per fast device.
Placement cut_by_cost(const Problem& problem) {
  const std::vector<DeviceId> fast = fast_devices(problem.devices);
  const std::vector<double> weight = op_weights(problem);
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  Placement placement;
  double before = 0;
  for (const double cost : weight) {
    const auto piece = static_cast<std::size_t>(before / total * static_cast<double>(fast.size()));
    placement.push_back(fast[std::min(piece, fast.size() - 1)]);
    before += cost;
  }
  return placement;
}

/// A real network on the Hierarchical Planner's machine.
struct RealCase {
  RealCase(OpGraph network, std::int64_t gpus)
      : graph{std::move(network)},
        devices{load_devices(std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs/devices" /
                                 fmt::format("hierarchical-{}gpu.toml", gpus),
                             0)
                    .value()},
        constraints{Constraints::make(graph, devices).value()},
        costs{graph, devices} {
    placement = cut_by_cost(problem());
    constraints.repair(placement);
  }
  Problem problem() const { return {graph, devices, constraints, costs}; }

  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  CostTable costs;
  Placement placement;
};

struct Network {
  const char* file;
  const char* model;  ///< Model to generate if the file does not exist.
  models::ModelSizes sizes;
};

std::unique_ptr<RealCase> real_case(benchmark::State& state) {
  static const std::array<Network, 3> kNetworks{{
      {"resnet50-bs32.json", "resnet-152", {.batch = 32}},
      {"nmt-2layer-bs64.json.gz", "nmt", {.layers = 2, .batch = 64}},
      {"nmt-4layer-bs64.json.gz", "nmt", {.layers = 4, .batch = 64}},
  }};
  const Network& network = kNetworks[static_cast<std::size_t>(state.range(0))];
  const char* folder = std::getenv("EMPLACE_GRAPHS_DIR");
  std::filesystem::path path = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs/graphs" / network.file;
  if (folder != nullptr) path = std::filesystem::path{folder} / network.file;
  if (std::filesystem::exists(path)) {
    state.SetLabel(network.file);
    return std::make_unique<RealCase>(load_graph(path).value(), state.range(1));
  }
  OpGraph made = models::model_graph(*models::find_model(network.model), network.sizes, {}).value();
  state.SetLabel("generated " + std::string{made.name()});
  return std::make_unique<RealCase>(std::move(made), state.range(1));
}

void BM_Contiguous(benchmark::State& state) {
  const auto real = real_case(state);
  Simulator simulator{real->graph, real->devices};
  Measurement out;
  for (auto _ : state) benchmark::DoNotOptimize(simulator.measure(real->placement, out).ok());
  report(state, real->graph, out.step_time_s * 1e6);
  state.counters["evals"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Contiguous)->ArgsProduct({{0, 1, 2}, {2, 4}})->Unit(benchmark::kMicrosecond);

/// Moves of one scope group at a time on the quickstart's network, in the order in which Placeto's episodes
/// visit the groups: simulated from scratch, and incrementally from the previous placement.
void BM_Moves(benchmark::State& state) {
  const std::filesystem::path configs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";
  const OpGraph graph = load_graph(configs / "graphs/nmt-2layer-bs64.json.gz").value();
  const DeviceSet devices = load_devices(configs / "devices/quickstart.toml", 0).value();
  const Constraints constraints = Constraints::make(graph, devices).value();
  Simulator simulator{graph, devices, {Dispatch::kProgram, state.range(0) != 0}};
  const Grouping grouping = placement_groups({graph, devices, constraints, simulator.costs()}, 64);
  Placement placement(graph.num_ops(), DeviceId{1});
  Measurement out;
  std::uint64_t step = 0;
  double sum_s = 0;
  for (auto _ : state) {
    const std::size_t group = step % grouping.num_groups;
    const auto device = static_cast<DeviceId>(1 + splitmix64(step) % 2);
    for (std::size_t op = 0; op < graph.num_ops(); ++op)
      if (grouping.group_of_op[op] == group) placement[op] = device;
    ++step;
    benchmark::DoNotOptimize(simulator.measure(placement, out).ok());
    sum_s += out.step_time_s;
  }
  state.counters["mean_step_ms"] = sum_s / static_cast<double>(step) * 1e3;
}
BENCHMARK(BM_Moves)->Arg(0)->Arg(1)->Iterations(2000)->Unit(benchmark::kMicrosecond);

/// Moves of one of 256 groups that are all refused, as late in a local search: each candidate moves another
/// group of the same placement. Simulated from scratch, and incrementally.
void run_refused_moves(benchmark::State& state, const Problem& problem, const Placement& start, bool moving) {
  Simulator simulator{problem.graph, problem.devices, {Dispatch::kProgram, moving}};
  const Grouping grouping = placement_groups(problem, 256);
  const std::vector<DeviceId> fast = fast_devices(problem.devices);
  std::vector<std::vector<std::size_t>> ops(grouping.num_groups);
  for (std::size_t op = 0; op < start.size(); ++op) ops[grouping.group_of_op[op]].push_back(op);
  Placement placement = start;
  Measurement out;
  std::uint64_t step = 0;
  double sum_s = 0;
  if (!simulator.measure(placement, out)) return state.SkipWithError("no measurement");
  for (auto _ : state) {
    const auto& group = ops[splitmix64(2 * step) % ops.size()];
    const DeviceId device = fast[splitmix64(2 * step + 1) % fast.size()];
    ++step;
    for (const std::size_t op : group) placement[op] = device;
    benchmark::DoNotOptimize(simulator.measure(placement, out).ok());
    sum_s += out.step_time_s;
    for (const std::size_t op : group) placement[op] = start[op];
  }
  state.counters["mean_step_ms"] = sum_s / static_cast<double>(step) * 1e3;
}

void BM_RefusedMoves(benchmark::State& state) {
  const auto real = real_case(state);
  if (real != nullptr) run_refused_moves(state, real->problem(), real->placement, state.range(2) != 0);
}
BENCHMARK(BM_RefusedMoves)
    ->ArgsProduct({{0, 1, 2}, {2, 4}, {0, 1}})
    ->Iterations(2000)
    ->Unit(benchmark::kMicrosecond);

/// Refused moves on a layered DAG, cut by cost (0) or with its groups assigned at random (1).
void BM_RefusedMovesLayered(benchmark::State& state) {
  const auto dag = load(state);
  const DeviceSet devices = testing::sample_devices(kDevices, false, std::int64_t{1} << 50, {7.6e9, 25e-6});
  const Constraints constraints = Constraints::make(dag.graph, devices).value();
  const CostTable costs{dag.graph, devices};
  const Problem problem{dag.graph, devices, constraints, costs};
  Placement placement = cut_by_cost(problem);
  if (state.range(1) != 0) {
    const Grouping grouping = placement_groups(problem, 256);
    for (std::size_t op = 0; op < placement.size(); ++op)
      placement[op] = static_cast<DeviceId>(splitmix64(grouping.group_of_op[op]) % kDevices);
  }
  run_refused_moves(state, problem, placement, state.range(2) != 0);
}
BENCHMARK(BM_RefusedMovesLayered)
    ->ArgsProduct({{10000, 25000}, {0, 1}, {0, 1}})
    ->Iterations(2000)
    ->Unit(benchmark::kMicrosecond);

void BM_Lowering(benchmark::State& state) {
  const auto dag = load(state);
  std::size_t buffers = 0;
  for (auto _ : state) buffers = LoweredGraph{dag.graph}.num_buffers();
  state.counters["buffers"] = static_cast<double>(buffers);
}
BENCHMARK(BM_Lowering)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
