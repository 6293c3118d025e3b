// Annealing with the moves of `auto` against random moves, on 20 held-out worlds of at most 2,500 ops that
// had no part in training, two seeds each. BM_Guided: moves of trees and moves by the pretrained policy;
// BM_Trees: without the policy. Arguments: evaluations of the random search and of the other one. Counter
// `ratio`: geometric mean of the other step time over the random one. Where it crosses 1, both find the same:
// asked at a third of the evaluations.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/sim/simulator.h"
#include "lab/worlds/world.h"
#include "launcher/pretrained/guided_moves.h"
#include "solver/search/anneal.h"
#include "solver/search/tree_moves.h"

namespace emplace {
namespace {

constexpr std::size_t kWorlds = 20;
constexpr std::uint64_t kSeeds = 2;

struct Row {
  explicit Row(lab::World made)
      : world{std::move(made)},
        constraints{*Constraints::make(world.graph, world.devices)},
        simulator{world.graph, world.devices} {}

  /// Best step time [s]; infinite if nothing fits.
  double anneal(std::uint64_t evaluations, std::uint64_t seed, const MoveGuide& moves) {
    const Problem problem{world.graph, world.devices, constraints, simulator.costs(), seed};
    const Anneal anneal{
        {.evaluations = evaluations, .moves = moves ? moves(problem) : MoveProposerFactory{}}};
    const auto found = anneal.find(problem, simulator);
    return found && found->measurement.valid ? found->measurement.step_time_s : HUGE_VAL;
  }

  lab::World world;
  Constraints constraints;
  Simulator simulator;
};

const std::vector<std::unique_ptr<Row>>& rows() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Row>> made;
    for (std::uint32_t number = 0; made.size() < kWorlds; ++number)
      made.push_back(
          std::make_unique<Row>(*lab::make_world({.seed = 30, .held_out = true, .most_ops = 2'500}, number)));
    return made;
  }();
  return all;
}

/// [rows x seeds] Best step times [s].
std::vector<double> anneal_all(std::uint64_t evaluations, const MoveGuide& moves) {
  std::vector<double> found;
  for (const auto& row : rows())
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
      found.push_back(row->anneal(evaluations, seed, moves));
  return found;
}

void compare(benchmark::State& state, const MoveGuide& moves) {
  static std::map<std::uint64_t, std::vector<double>> searched;  // Key: number of evaluations.
  auto& random = searched[static_cast<std::uint64_t>(state.range(0))];
  if (random.empty()) random = anneal_all(static_cast<std::uint64_t>(state.range(0)), {});
  std::vector<double> found;
  for (auto _ : state) found = anneal_all(static_cast<std::uint64_t>(state.range(1)), moves);
  double log_ratio = 0, both = 0, only_random = 0, only_found = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isfinite(found[i]) && std::isfinite(random[i])) {
      log_ratio += std::log(found[i] / random[i]);
      both += 1;
    }
    only_random += std::isfinite(random[i]) && !std::isfinite(found[i]);
    only_found += std::isfinite(found[i]) && !std::isfinite(random[i]);
  }
  state.counters["ratio"] = std::exp(log_ratio / both);
  state.counters["searches"] = both;
  state.counters["fits_random_only"] = only_random;
  state.counters["fits_other_only"] = only_found;
}

void BM_Guided(benchmark::State& state) { compare(state, launcher::guided_moves); }
BENCHMARK(BM_Guided)
    ->Args({100, 30})
    ->ArgsProduct({{6'000}, {600, 1'000, 2'000, 3'000, 6'000}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

void BM_Trees(benchmark::State& state) { compare(state, tree_moves); }
BENCHMARK(BM_Trees)
    ->ArgsProduct({{6'000}, {600, 1'000, 2'000, 3'000, 6'000}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
