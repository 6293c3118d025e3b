// What an iteration of the Hierarchical Planner costs: m = 1 grouping, k = 4 placements, 5 devices, 256 groups, the paper's
// sizes. Budget at 83,712 ops, one core: sampling 0.12 s, update (gradient, clip, Adam) 0.30 s.
// Floor: 22.3 GFLOP of matrix products (0.108 s at 206 GFLOP/s with AVX-512) and 67 M tanh a pass in the attention.
// Each benchmark prints its answer, log_p, beside its time.
#include <benchmark/benchmark.h>

#include <memory>

#include "policy/optim/adam.h"
#include "policy/placers/hierarchical.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

struct Setting {
  explicit Setting(std::uint32_t ops) : graph{make(ops)}, devices{testing::sample_devices(5, false, std::int64_t{1} << 50)}, constraints{*Constraints::make(graph, devices)} {
    policy::HierarchicalOptions options;
    options.noise_updates = 0;
    planner = *policy::HierarchicalPlanner::make(graph, devices, constraints, options, {}, 1);
  }
  static OpGraph make(std::uint32_t ops) {
    Rng rng{7, Purpose::kTest};
    return testing::layered_graph(rng, ops);
  }
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  std::unique_ptr<policy::HierarchicalPlanner> planner;
};

Setting& setting(std::int64_t ops) {
  static std::unique_ptr<Setting> kept;
  if (kept == nullptr || kept->graph.num_ops() != static_cast<std::size_t>(ops)) kept = std::make_unique<Setting>(static_cast<std::uint32_t>(ops));
  return *kept;
}

void BM_HierarchicalSample(benchmark::State& state) {
  Setting& s = setting(state.range(0));
  std::uint64_t episode = 0;
  std::size_t bytes = 0;
  for (auto _ : state) bytes += s.planner->sample(episode++, 0).bytes.size();
  state.counters["bytes"] = static_cast<double>(bytes / episode);
}
BENCHMARK(BM_HierarchicalSample)->Arg(1000)->Arg(13'581)->Arg(83'712)->Unit(benchmark::kMillisecond);

void BM_HierarchicalUpdate(benchmark::State& state) {
  Setting& s = setting(state.range(0));
  const policy::ScoredEpisode episode{s.planner->sample(0, 0), {0.5f, -0.5f, 1.0f, -1.0f}};
  policy::Adam adam;
  double log_p = 0;
  for (auto _ : state) {
    s.planner->parameters().clear_gradients();
    log_p = s.planner->accumulate_gradient({&episode, 1})->log_probability;
    adam.step(s.planner->parameters(), 1e-6f);
  }
  state.counters["log_p"] = log_p;
  state.counters["parameters"] = static_cast<double>(s.planner->parameters().size());
}
BENCHMARK(BM_HierarchicalUpdate)->Arg(1000)->Arg(13'581)->Arg(83'712)->Unit(benchmark::kMillisecond);

/// The matrix product that most of it could be, as Eigen does it here.
void BM_EigenProduct(benchmark::State& state) {
  const Eigen::Index n = state.range(0);
  const policy::Matrix a = policy::Matrix::Random(n, n), b = policy::Matrix::Random(n, n);
  policy::Matrix c(n, n);
  for (auto _ : state) {
    c.noalias() = a * b;
    benchmark::DoNotOptimize(c.data());
  }
  state.counters["flops"] = benchmark::Counter(2.0 * static_cast<double>(n * n * n), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["answer"] = c(0, 0);
}
BENCHMARK(BM_EigenProduct)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
