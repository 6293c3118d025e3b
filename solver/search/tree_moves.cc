#include "solver/search/tree_moves.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "solver/search/walk.h"

namespace emplace {
namespace {

// Tuned on held-out worlds (docs/results/performance.md); halves and doubles find the same.
constexpr std::uint32_t kTreePercent = 70;
constexpr std::size_t kMostUnits = 64;
/// Bounds the work of a move on machines of many devices, where it would take longer than its evaluation.
constexpr std::size_t kMostWork = kMostUnits * 16 * 16;

}  // namespace

TreeMoves::TreeMoves(const Level& level, const Problem& problem)
    : RandomMoves{level, problem},
      tree_{level, problem},
      most_units_{std::clamp<std::size_t>(kMostWork / (problem.devices.size() * problem.devices.size()), 2,
                                          std::clamp<std::size_t>(level.size(), 2, kMostUnits))},
      prices_(problem.devices.size()) {}

void TreeMoves::propose(Walker& walker) {
  if (walker.rng().below(100) >= kTreePercent) return RandomMoves::propose(walker);
  const std::uint32_t root = RandomMoves::choose_unit(walker);
  tree_.grow(walker, root, std::max<std::size_t>(2, length_up_to(walker, most_units_)));
  const auto draw = [&] { return std::exp(static_cast<double>(walker.rng().normal())); };
  for (double& price : prices_) price = draw();
  const auto devices = tree_.choose(walker.devices(), prices_, draw());
  const auto nodes = tree_.nodes();
  for (std::size_t at = 0; at < nodes.size(); ++at) walker.move(nodes[at].unit, devices[at]);
}

MoveProposerFactory tree_moves(const Problem& problem) {
  if (problem.objective != Objective::kStepTime) return {};
  return
      [](const Level& level, const Problem& of_walk) { return std::make_unique<TreeMoves>(level, of_walk); };
}

}  // namespace emplace
