#pragma once

#include <functional>
#include <memory>

namespace emplace {

struct Level;
struct Problem;
class Walker;

/// Proposes the moves of a walk. Learned proposers are defined in higher layers and passed in the options of
/// a search. Thread: one; each walk has its own.
class MoveProposer {
 public:
  virtual ~MoveProposer() = default;
  /// Changes the walk's placement through Walker::move(). Random numbers must come from Walker::rng(), so
  /// that a search is a function of its seed. A proposal without changes costs no evaluation.
  virtual void propose(Walker& walker) = 0;
};

/// Creates the proposer of one walk over `level`. Called from any thread.
using MoveProposerFactory =
    std::function<std::unique_ptr<MoveProposer>(const Level& level, const Problem& problem)>;

/// Prepares the proposers of a problem, which outlives them. Called once, before the first search.
using MoveGuide = std::function<MoveProposerFactory(const Problem& problem)>;

}  // namespace emplace
