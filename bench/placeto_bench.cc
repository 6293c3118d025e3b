// Cost of an iteration of Placeto: 5 devices, the peer's layered graph (placers.py placeto_replay), one
// episode, one core. Target at 160 nodes: draw, gradient and Adam together in 0.256 s, 2.5 times the speed
// of the best PyTorch setting (0.64 s). Floor of the direct method, which passes every state forward and
// backward in full: 31.4 GFLOP, 23.5 of them useful, 0.152 s at 206 GFLOP/s. A trace computes only what a
// step changes and a later round reads; the counter `forward_gflop` is that. The result is log_p of the
// first episode.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/device_file.h"
#include "policy/loss/baseline.h"
#include "policy/loss/reward.h"
#include "policy/optim/adam.h"
#include "policy/placers/placeto.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

/// The peer's graph: each node reads one of the 20 nodes before it; four in ten also read one of the 60
/// before.
OpGraph peer_graph(std::uint32_t nodes) {
  Rng rng{1, Purpose::kTest};
  std::vector<testing::SampleOp> ops(nodes);
  const auto before = [&](std::uint32_t node, std::uint32_t reach) {
    const std::uint32_t back = 1 + rng.below(reach);
    return EdgeSpec{node > back ? node - back : 0, 0};
  };
  for (std::uint32_t i = 0; i < nodes; ++i) {
    ops[i].name = fmt::format("op{}", i);
    ops[i].gpu_us = 1 + 99 * rng.uniform_double();
    ops[i].output_bytes = {4 + 4 * static_cast<std::int64_t>(rng.below(100'000))};
    if (i > 0) ops[i].inputs.push_back(before(i, 20));
  }
  for (std::uint32_t extra = 0; extra < 2 * nodes / 5; ++extra) {
    const std::uint32_t node = 1 + rng.below(nodes - 1);
    ops[node].inputs.push_back(before(node, 60));
  }
  return testing::sample_graph(ops);
}

struct Setting {
  explicit Setting(std::uint32_t nodes)
      : graph{peer_graph(nodes)},
        devices{testing::sample_devices(5, false, std::int64_t{1} << 40)},
        constraints{*Constraints::make(graph, devices)} {
    policy::PlacetoGraph view{{&graph, &devices, &constraints}, colocation_groups(graph)};
    policy::PlacetoOptions options;
    options.start = policy::InitialPlacement::kRandom;
    placer = *policy::PlacetoPlacer::make({view}, options, 1);
    // The head is zero before training and would hide errors in the layers below.
    Rng rng{2, Purpose::kTest};
    for (float& value : placer->parameters().values()) value += 0.02f * rng.normal();
  }
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  std::unique_ptr<policy::PlacetoPlacer> placer;
};

void BM_PlacetoSample(benchmark::State& state) {
  const Setting s{static_cast<std::uint32_t>(state.range(0))};
  std::uint64_t episode = 0;
  std::size_t bytes = 0;
  for (auto _ : state) bytes = s.placer->sample(episode++, 0).bytes.size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_PlacetoSample)->Arg(16)->Arg(64)->Arg(160)->Unit(benchmark::kMillisecond);

void BM_PlacetoIteration(benchmark::State& state) {
  const Setting s{static_cast<std::uint32_t>(state.range(0))};
  Rng rng{3, Purpose::kTest};
  std::vector<float> advantages;
  for (std::size_t t = 0; t < s.placer->placements_per_episode(); ++t) advantages.push_back(rng.normal());
  policy::Adam adam;
  double log_p = 0;
  for (auto _ : state) {
    const policy::ScoredEpisode episode{s.placer->sample(0, 0), advantages};
    s.placer->parameters().clear_gradients();
    const auto learned = s.placer->accumulate_gradient({&episode, 1});
    if (adam.updates() == 0) log_p = learned->log_probability;
    adam.step(s.placer->parameters(), 1e-6f);
  }
  state.counters["log_p"] = log_p;
  state.counters["parameters"] = static_cast<double>(s.placer->parameters().size());
}
BENCHMARK(BM_PlacetoIteration)->Arg(16)->Arg(64)->Arg(160)->Unit(benchmark::kMillisecond);

/// The network alone over an episode, forward and backward.
void BM_GraphTrace(benchmark::State& state) {
  const auto nodes = static_cast<std::uint32_t>(state.range(0));
  const OpGraph ops = peer_graph(nodes);
  const policy::GroupGraph graph{ops, colocation_groups(ops)};
  policy::ParameterStore store;
  const policy::GraphNetwork network{store, "bench", 9, 5, {}, 1};
  Rng rng{4, Purpose::kTest};
  for (float& value : store.values()) value += 0.02f * rng.normal();
  policy::Matrix features(9, nodes);
  for (Eigen::Index i = 0; i < features.size(); ++i) features.data()[i] = rng.uniform();
  const policy::Matrix seed = policy::Matrix::Constant(5, nodes, 0.2f);
  policy::GraphTrace trace;
  const policy::PackedGraphNetwork weights{network, store};
  for (auto _ : state) {
    policy::GraphNetworkGradient gradient{weights};
    trace.begin(weights, graph, nullptr, features);
    std::uint32_t before = graph.order().front();
    for (const std::uint32_t node : graph.order()) {
      // Changed nodes as in an episode: the previous node and the current one.
      for (const std::uint32_t changed : {before, node})
        trace.change(changed, {features.col((changed + node) % nodes).data(), 9});
      trace.step(node);
      before = node;
    }
    trace.backward(seed, gradient);
    benchmark::DoNotOptimize(&gradient);
  }
  state.counters["log_p"] = trace.log_p().sum();
  state.counters["forward_gflop"] = trace.forward_flops() * 1e-9;
}
BENCHMARK(BM_GraphTrace)->Arg(64)->Arg(160)->Unit(benchmark::kMillisecond);

/// Learning quality on the quickstart's network and machine (see learning_bench.cc for floors and
/// references): 64 groups of scopes by phase, episodes of 64 placements, 4 episodes per update. Counters:
/// the step time of the best placement seen and of the final most likely placement.
void BM_PlacetoLearn(benchmark::State& state) {
  const OpGraph graph =
      *load_graph(std::string{EMPLACE_SOURCE_DIR} + "/configs/graphs/nmt-2layer-bs64.json.gz");
  const DeviceSet devices =
      *load_devices(std::string{EMPLACE_SOURCE_DIR} + "/configs/devices/quickstart.toml");
  const Constraints constraints = *Constraints::make(graph, devices);
  Simulator simulator{graph, devices};
  std::vector<double> time_ns(graph.num_ops());
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op)
    time_ns[op] = static_cast<double>(simulator.costs().best_ns(OpId{op}));
  const Grouping scopes = scope_groups(graph, {.split_phases = true});
  const Grouping groups = merge_small_groups(graph, scopes, sum_by_group(scopes, time_ns), 64);

  const auto updates = static_cast<std::uint64_t>(state.range(0));
  policy::PlacetoOptions options;
  options.network.logit_bound = 5;
  options.loss.entropy = 0.3f;
  options.entropy_end = 0.02f;
  options.entropy_over = updates;
  policy::BaselineOptions baseline_options;
  baseline_options.kind = policy::BaselineKind::kStepMean;
  baseline_options.returns = policy::Returns::kIntermediate;
  baseline_options.discount = 0.95;
  baseline_options.window = 40;
  baseline_options.normalise = true;
  policy::RewardOptions reward;
  reward.transform = policy::Transform::kLog;
  reward.graded_memory = true;
  reward.failing_signal = 100;

  double best = 0, evaluations = 0;
  Measurement measured;
  for (auto _ : state) {
    auto placer = *policy::PlacetoPlacer::make({{{&graph, &devices, &constraints}, groups}}, options,
                                               static_cast<std::uint64_t>(state.range(1)));
    policy::Baseline baseline{baseline_options};
    policy::Adam adam{{.clip_norm = 1.25f}};
    for (std::uint64_t update = 0; update < updates; ++update) {
      placer->start_update(update);
      std::vector<policy::ScoredEpisode> batch;
      for (std::uint64_t episode = 4 * update; episode < 4 * update + 4; ++episode) {
        policy::Actions actions = placer->sample(episode, update);
        std::vector<double> cost;
        for (const Placement& placement : *placer->expand(actions)) {
          simulator.measure(placement, measured).value();
          cost.push_back(
              policy::placement_cost(reward, measured.valid, measured.step_time_s, measured.bytes_over));
          if (measured.valid && (best == 0 || measured.step_time_s < best)) best = measured.step_time_s;
        }
        evaluations += static_cast<double>(cost.size());
        const auto advantages = baseline.advantages(cost, std::vector<std::uint8_t>(cost.size(), 1));
        batch.push_back({std::move(actions), {advantages.begin(), advantages.end()}});
      }
      placer->parameters().clear_gradients();
      placer->end_update(placer->accumulate_gradient(batch).value());
      adam.step(placer->parameters(), 1e-3f);
    }
    simulator.measure(placer->greedy(), measured).value();
  }
  state.counters["best_ms"] = best * 1e3;
  state.counters["likeliest_ms"] = measured.valid ? measured.step_time_s * 1e3 : -1;
  state.counters["evaluations"] = evaluations;
}
BENCHMARK(BM_PlacetoLearn)
    ->ArgNames({"updates", "seed"})
    ->Args({2, 1})
    ->ArgsProduct({{200}, {1, 2, 3}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
