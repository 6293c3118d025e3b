// `auto` against each of its parts with the same budget of processor time, on held-out worlds (rows of
// configs/pretrained/held_out.jsonl). One thread; the clock of the searches is the time of the process, so
// that other work on the machine takes none of it. Argument: budget [ms]. The step time of a row is the
// geometric mean over seeds. Counters: geometric mean of the step time of `auto` over that of each part, over
// the rows where both fit with every seed; `worst` over the best part of a row, and the number of rows where
// it is more than 1 % `behind`. Prints each row. EMPLACE_PARTS_WORLDS: numbers of other worlds, such as 3,7.
// EMPLACE_PARTS_SEEDS: other seeds than 1, such as 1,2,3.

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "executor/sim/simulator.h"
#include "lab/worlds/world.h"
#include "launcher/pretrained/guided_moves.h"
#include "launcher/pretrained/pretrained.h"
#include "solver/portfolio/portfolio.h"
#include "solver/search/anneal.h"
#include "solver/search/local_search.h"

namespace emplace {
namespace {

constexpr std::uint64_t kSeedOfRows = 28;
constexpr double kBehind = 1.01;

/// Time of this process on all processors.
class ProcessorClock final : public Clock {
 public:
  Nanos now() const override {
    timespec at{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return std::chrono::seconds{at.tv_sec} + Nanos{at.tv_nsec};
  }
  Nanos wall() const override { return now(); }
};

/// The numbers in the environment variable, or in `standard` if it is not set.
std::vector<std::uint32_t> numbers_in(const char* variable, const char* standard) {
  const char* given = std::getenv(variable);
  std::istringstream list{given != nullptr ? given : standard};
  std::vector<std::uint32_t> numbers;
  for (std::string number; std::getline(list, number, ',');)
    numbers.push_back(static_cast<std::uint32_t>(std::stoul(number)));
  return numbers;
}

/// Step time that each part finds within the budget [s], and that of `auto`; those that fit.
std::map<std::string, double> search_by_parts(const lab::World& world, std::uint64_t seed, double budget_s) {
  const Constraints constraints = *Constraints::make(world.graph, world.devices);
  Simulator simulator{world.graph, world.devices};
  const Problem problem{world.graph, world.devices, constraints, simulator.costs(), seed};
  const ProcessorClock clock;
  std::map<std::string, double> found;
  const auto note = [&](const std::string& part, const auto& result) {
    if (result && result->measurement.valid) found[part] = result->measurement.step_time_s;
  };
  const auto by_portfolio = [&](const std::string& part, bool searches) {
    Problem timed = problem;
    timed.context = {.clock = &clock,
                     .deadline = clock.now() + as_nanos(budget_s),
                     .searches = searches,
                     .moves = launcher::guided_moves};
    note(part, run_portfolio(launcher::portfolio_methods(), timed, Judge{}, simulator));
  };
  const auto by_search = [&](const std::string& part, const Method& method) {
    Problem timed = problem;
    timed.context = {.clock = &clock, .deadline = clock.now() + as_nanos(budget_s)};
    note(part, method.find(timed, simulator));
  };
  by_portfolio("auto", true);
  by_portfolio("heuristics", false);
  by_search("anneal", Anneal{AnnealOptions{}});
  by_search("guided", Anneal{{.moves = launcher::guided_moves(problem)}});
  by_search("weights", Anneal{{.weights = WeightWalk::kOnly}});
  by_search("local-search", LocalSearch{LocalSearchOptions{}});
  return found;
}

/// Geometric means over the seeds [s]; only parts that fit with each of them.
std::map<std::string, double> means_of_parts(const lab::World& world, const std::vector<std::uint32_t>& seeds,
                                             double budget_s) {
  std::map<std::string, std::vector<double>> logs;
  for (const std::uint32_t seed : seeds) {
    for (const auto& [part, seconds] : search_by_parts(world, seed, budget_s))
      logs[part].push_back(std::log(seconds));
  }
  std::map<std::string, double> means;
  for (const auto& [part, of_seeds] : logs) {
    if (of_seeds.size() < seeds.size()) continue;
    const double sum = std::accumulate(of_seeds.begin(), of_seeds.end(), 0.0);
    means[part] = std::exp(sum / static_cast<double>(of_seeds.size()));
  }
  return means;
}

void BM_Parts(benchmark::State& state) {
  const double budget_s = static_cast<double>(state.range(0)) * 1e-3;
  struct Sum {
    double log_ratio = 0, count = 0;
  };
  std::map<std::string, Sum> sums;
  double worst = 0, behind = 0;
  const auto seeds = numbers_in("EMPLACE_PARTS_SEEDS", "1");
  for (auto _ : state) {
    for (const std::uint32_t number : numbers_in("EMPLACE_PARTS_WORLDS", "3,7,15,20,27,32")) {
      const auto world = *lab::make_world({.seed = kSeedOfRows, .held_out = true}, number);
      const auto found = means_of_parts(world, seeds, budget_s);
      std::string line =
          fmt::format("{:03}-{}, {} ms, {} seeds:", number, world.family, state.range(0), seeds.size());
      const auto own = found.find("auto");
      double best = HUGE_VAL;
      for (const auto& [part, seconds] : found) {
        line += fmt::format(" {} {:.3f}", part, seconds * 1e3);
        if (part == "auto") continue;
        best = std::min(best, seconds);
        if (own == found.end()) continue;
        sums[part].log_ratio += std::log(own->second / seconds);
        sums[part].count += 1;
      }
      const double ratio = own != found.end() ? own->second / best : HUGE_VAL;
      worst = std::max(worst, ratio);
      behind += ratio > kBehind;
      fmt::print(stderr, "{}; auto over the best part {:.4f}\n", line, ratio);
    }
  }
  for (const auto& [part, sum] : sums) state.counters[part] = std::exp(sum.log_ratio / sum.count);
  state.counters["worst"] = worst;
  state.counters["behind"] = behind;
}
BENCHMARK(BM_Parts)->Arg(30)->Arg(5'000)->Arg(60'000)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace emplace

BENCHMARK_MAIN();
