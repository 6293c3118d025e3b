#pragma once

#include <functional>
#include <memory>

namespace emplace {

struct Level;
struct Problem;
class Walker;

/// What a walk tries next. Learned proposers are made above this floor and handed in with the options of a
/// search. Thread: one; each walk has its own.
class MoveProposer {
 public:
  virtual ~MoveProposer() = default;
  /// Changes the walk's placement by calls of Walker::move; random numbers come from Walker::rng, so that a
  /// search is a function of its seed. A proposal that changes nothing costs no evaluation.
  virtual void propose(Walker& walker) = 0;
};

/// Makes the proposer of one walk over `level`. Called on any thread.
using MoveProposerFactory =
    std::function<std::unique_ptr<MoveProposer>(const Level& level, const Problem& problem)>;

}  // namespace emplace
