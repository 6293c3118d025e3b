// Cost of an iteration of the Hierarchical Planner and of ColocRL. Planner: 4 placements, 5 devices, one
// core. Budget at 83,712 ops, 256 groups and the paper's sizes: sampling 0.12 s, update (gradient, clip,
// Adam) 0.30 s. The paper draws one grouping and 4 placements of it. The peer (placers.py hp) draws 4
// groupings and one placement of each, which encodes four times. Floor of the peer's shape: 22.3 GFLOP of
// matrix products at the speed of BM_Product, and 67 M tanh per pass in the attention. ColocRL: budget 0.26
// s for a sample and an update of 280 groups, a third and a half of the peer's time (placers.py coloc).
// Counter: log_p of the first update.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "policy/nn/product.h"
#include "policy/optim/adam.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/sequence.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

struct Setting {
  Setting(std::uint32_t ops, std::size_t groups, Eigen::Index hidden, std::size_t groupings)
      : graph{make(ops)},
        devices{testing::sample_devices(5, false, std::int64_t{1} << 50)},
        constraints{*Constraints::make(graph, devices)} {
    policy::HierarchicalOptions options;
    options.noise_updates = 0;
    options.groups = groups;
    options.hidden = hidden;
    options.placements = 4 / groupings;
    planner = *policy::HierarchicalPlanner::make({{{&graph, &devices, &constraints}, {}}}, options, 1);
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

Setting setting(const benchmark::State& state) {
  return {static_cast<std::uint32_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
          state.range(2), static_cast<std::size_t>(state.range(3))};
}

/// Args: ops, groups, hidden size, groupings. Rows: a small case, the quickstart's, the paper's, the
/// peer's.
void shapes(benchmark::internal::Benchmark* bench) {
  bench->Args({1000, 64, 64, 1})->Args({13'581, 64, 64, 1});
  bench->Args({83'712, 256, 256, 1})->Args({83'712, 256, 256, 4})->Unit(benchmark::kMillisecond);
}

void BM_HierarchicalSample(benchmark::State& state) {
  const Setting s = setting(state);
  std::uint64_t episode = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    for (std::int64_t e = 0; e < state.range(3); ++e) bytes = s.planner->sample(episode++, 0).bytes.size();
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_HierarchicalSample)->Apply(shapes);

void BM_HierarchicalUpdate(benchmark::State& state) {
  const Setting s = setting(state);
  const float advantages[] = {0.5f, -0.5f, 1.0f, -1.0f};
  std::vector<policy::ScoredEpisode> batch;
  const std::int64_t each = 4 / state.range(3);
  for (std::int64_t e = 0; e < state.range(3); ++e) {
    batch.push_back({s.planner->sample(static_cast<std::uint64_t>(e), 0),
                     {advantages + e * each, advantages + (e + 1) * each}});
  }
  policy::Adam adam;
  double log_p = 0;
  for (auto _ : state) {
    s.planner->parameters().clear_gradients();
    const auto learned = s.planner->accumulate_gradient(batch);
    if (adam.updates() == 0) log_p = learned->log_probability;
    adam.step(s.planner->parameters(), 1e-6f);
  }
  state.counters["log_p"] = log_p;
  state.counters["parameters"] = static_cast<double>(s.planner->parameters().size());
}
BENCHMARK(BM_HierarchicalUpdate)->Apply(shapes);

/// The network of the peer (placers.py coloc): inputs of 200 types, 16 shape sums and 280 groups in both
/// directions; the decoder starts from the encoder's state; plain logits. The peer counts 14.4 GFLOP
/// because it encodes each of the 4 samples; encoding once takes 8.3 GFLOP.
struct ColocRl {
  ColocRl(std::uint32_t ops, std::size_t groups, Eigen::Index hidden, std::size_t threads)
      : graph{Setting::make(ops)},
        devices{testing::sample_devices(5, false, std::int64_t{1} << 50)},
        constraints{*Constraints::make(graph, devices)} {
    Grouping grouping;
    for (std::uint32_t i = 0; i < ops; ++i)
      grouping.group_of_op.push_back(static_cast<std::uint32_t>(i * groups / ops));
    grouping.num_groups = groups;
    policy::SequenceOptions options = policy::colocrl_options();
    options.input = policy::GroupInput::kCounts;
    options.features.vocabulary = 199;
    options.network.bidirectional = true;
    options.network.hidden = hidden;
    options.threads = threads;
    placer = *policy::SequencePlacer::make({{{&graph, &devices, &constraints}, grouping, {}}}, options, 1);
  }
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  std::unique_ptr<policy::SequencePlacer> placer;
};

/// Args: ops, groups, hidden size, threads.
void coloc_shapes(benchmark::internal::Benchmark* bench) {
  bench->Args({1000, 64, 64, 1})->Args({22'097, 280, 256, 1})->Args({22'097, 280, 256, 2});
  bench->UseRealTime()->Unit(benchmark::kMillisecond);
}

ColocRl colocrl(const benchmark::State& state) {
  return {static_cast<std::uint32_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
          state.range(2), static_cast<std::size_t>(state.range(3))};
}

void BM_ColocRlSample(benchmark::State& state) {
  const ColocRl s = colocrl(state);
  std::uint64_t episode = 0;
  std::size_t bytes = 0;
  for (auto _ : state) bytes = s.placer->sample(episode++, 0).bytes.size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_ColocRlSample)->Apply(coloc_shapes);

void BM_ColocRlUpdate(benchmark::State& state) {
  const ColocRl s = colocrl(state);
  const policy::ScoredEpisode episode{s.placer->sample(0, 0), {0.5f, -0.5f, 1.0f, -1.0f}};
  policy::Adam adam;
  double log_p = 0;
  for (auto _ : state) {
    s.placer->parameters().clear_gradients();
    const auto learned = s.placer->accumulate_gradient({&episode, 1});
    if (adam.updates() == 0) log_p = learned->log_probability;
    adam.step(s.placer->parameters(), 1e-6f);
  }
  state.counters["log_p"] = log_p;
  state.counters["parameters"] = static_cast<double>(s.placer->parameters().size());
}
BENCHMARK(BM_ColocRlUpdate)->Apply(coloc_shapes);

/// Reference speed: a matrix product m x n x k from the cache.
void BM_Product(benchmark::State& state) {
  const Eigen::Index m = state.range(0), n = state.range(1), k = state.range(2);
  const policy::Packed a{policy::Matrix::Constant(m, k, 0.5f)};
  const policy::Matrix b = policy::Matrix::Constant(k, n, 0.25f);
  policy::Matrix c(m, n);
  for (auto _ : state) {
    c.setZero();
    policy::add_product(c, a, b);
    benchmark::DoNotOptimize(c.data());
  }
  state.counters["flops"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["answer"] = c(0, 0);
  state.SetLabel(policy::kernels().name);
}
BENCHMARK(BM_Product)
    ->Args({256, 96, 64})
    ->Args({256, 256, 256})
    ->Args({1024, 1, 256})
    ->Args({1024, 2, 256})
    ->Args({1024, 4, 256});

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
