#include "solver/search/anneal.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "solver/search/level.h"
#include "solver/search/search.h"
#include "solver/search/walk.h"

namespace emplace {
namespace {

constexpr std::uint64_t kFewest = 2'000, kUsual = 20'000;
constexpr double kSizeOfUsual = 40'000;  // Ops plus edges; about 0.8 ms per evaluation.
constexpr std::size_t kFewUnits = 64;
constexpr std::uint64_t kUsualOfSplits = 2'000'000;

/// Shares of the levels in the budget.
struct Shares {
  double groups, pieces, classes;
};
/// Trees of classes reach as far as groups do, so given proposers need less of the coarse levels, unless
/// there is less than an evaluation per kClassesOfFew classes.
constexpr Shares kCoarseShares{0.4, 0.3, 0.3}, kFineShares{0.2, 0.1, 0.7};
constexpr std::size_t kClassesOfFew = 50;

/// Share of one level in the budget.
struct Stage {
  const Level* level;
  double share;
  Cooling cooling;
};

}  // namespace

std::uint64_t Anneal::budget(const Problem& problem) const {
  if (problem.context.evaluations > 0) return problem.context.evaluations;
  if (options_.evaluations > 0) return options_.evaluations;
  if (problem.objective != Objective::kStepTime) return kUsualOfSplits;
  const double size = static_cast<double>(problem.graph.num_ops() + problem.graph.num_edges());
  const auto scaled = static_cast<std::uint64_t>(static_cast<double>(kUsual) * kSizeOfUsual / size);
  return std::clamp(scaled, kFewest, kUsual);
}

Result<Answer> Anneal::find(const Problem& problem, Executor& executor) const {
  if (options_.groups < 2) return invalid("anneal", "needs at least 2 groups");
  Search search{problem, budget(problem)};
  EMPLACE_TRY(start_search(problem, executor, search));
  const auto cost = make_moving_cost(problem, executor);
  std::uint64_t stream = options_.stream;
  const double begin = search.spent();
  const auto run = [&](const std::vector<Stage>& stages, double from, double to) -> Result<Unit> {
    double at = from;
    for (const Stage& stage : stages) {
      if (search.spent() >= 1) break;
      const double end = at + stage.share * (to - from);
      Walker walker{*stage.level, search, *cost, stream++, options_.moves};
      if (auto started = walker.start(search.best()); !started) return started;
      if (auto walked = walker.walk(Slot{search, at, end}, stage.cooling); !walked) return walked;
      at = end;
    }
    return Unit{};
  };

  const Level classes = class_level(problem);
  if (problem.objective != Objective::kStepTime) {
    // Few units and millions of evaluations: several cooling cycles, every other one starting less hot.
    constexpr int kHeats = 6;
    for (int heat = 0; heat < kHeats && search.spent() < 1; ++heat) {
      const bool reheat = heat % 2 == 1;
      const double from = begin + (1 - begin) * heat / kHeats, to = begin + (1 - begin) * (heat + 1) / kHeats;
      const std::vector<Stage> stages{{&classes, 1, {reheat ? 0.006 : 0.02, 0.0001}}};
      EMPLACE_TRY(run(stages, from, to));
    }
    return std::move(search).finish(executor);
  }
  const Level groups = group_level(problem, options_.groups), pieces = piece_level(problem);
  // The start is good, so the temperature is too low to leave it, and every level refines it. With few units
  // there is time to leave it (docs/results/performance.md describes the alternatives tried).
  const double first = (classes.size() <= kFewUnits ? 0.1 : 0.005) * options_.heat;
  double refine = begin;
  // Few units decide where the weights are, so this walk may leave the start. With more than there are groups
  // it would only be another walk over groups.
  if (options_.weights != WeightWalk::kNone && classes.size() > kFewUnits)
    if (const Level weights = weight_level(problem); weights.size() < groups.size()) {
      if (options_.weights == WeightWalk::kFirst) refine += kWeightsShare * (1 - begin);
      const double end = options_.weights == WeightWalk::kOnly ? 1 : refine;
      EMPLACE_TRY(run({{&weights, 1, {0.05, 0.001}}}, begin, end));
    }
  if (options_.weights == WeightWalk::kOnly) return std::move(search).finish(executor);
  const bool few = problem.context.clock == nullptr && budget(problem) < classes.size() / kClassesOfFew;
  const Shares& shares = options_.moves && !few ? kFineShares : kCoarseShares;
  const std::vector<Stage> stages{{&groups, shares.groups, {first, 0.0005}},
                                  {&pieces, shares.pieces, {0.003 * options_.heat, 0.0003}},
                                  {&classes, shares.classes, {0.001 * options_.heat, 0.0001}}};
  EMPLACE_TRY(run(stages, refine, 1));
  return std::move(search).finish(executor);
}

}  // namespace emplace
