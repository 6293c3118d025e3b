#pragma once

#include <vector>

#include "solver/search/moves.h"
#include "solver/search/unit_tree.h"

namespace emplace {

/// Random moves, and moves of a whole tree of units to the devices that are best for it as long as all other
/// units stay. The cost of a tree knows neither queues nor the critical path. Thus each move draws the prices
/// of devices and the weight of transfers, log-normally, and the walk judges the result. For step times.
class TreeMoves : public RandomMoves {
 public:
  /// `level` and `problem` must outlive it.
  TreeMoves(const Level& level, const Problem& problem);
  void propose(Walker& walker) override;

 private:
  UnitTree tree_;
  const std::size_t most_units_;
  std::vector<double> prices_;  // [devices]
};

/// Makes TreeMoves; empty for other objectives than step time.
MoveProposerFactory tree_moves(const Problem& problem);

}  // namespace emplace
