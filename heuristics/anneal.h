#pragma once
/// Simulated annealing: what patience alone finds, and the yardstick of the placers that learn.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "heuristics/method.h"
#include "heuristics/search/move_proposer.h"

namespace emplace {

struct AnnealOptions {
  /// Placements measured in all, those of the simple methods that it starts from included (they come first,
  /// however few are asked for). 0: 20,000, and fewer on graphs so large that this would take above 20 s.
  std::uint64_t evaluations = 0;
  std::size_t groups = 256;   ///< Of the coarsest level, at least 2.
  double heat = 1;            ///< All first temperatures times this, above 0: less where a walk went before.
  std::uint64_t stream = 0;   ///< Of random numbers: searches side by side take streams far apart.
  MoveProposerFactory moves;  ///< Empty: random moves of several kinds.
};

/// `anneal`: Metropolis walks over ever smaller units: scope groups, then scopes by phase, then co-location
/// classes. A move puts one unit, two exchanged, a unit with its neighbours, a range of time steps of one
/// scope, or a range in issue order on another device. The cost is log(step time), plus 0.2 and 0.5 per 10^9
/// bytes over the caps where it does not fit, so that tight memory is a slope and not a wall.
/// The first walk starts from the best of the simple methods (or of those it is given), each later one from
/// the best so far. Loads and latencies of splits are walked over class by class, heated several times.
/// Without a deadline the same problem, seed and options give the same placement, however long it takes.
class Anneal final : public Method {
 public:
  explicit Anneal(AnnealOptions options = {}) : options_{options} {}
  std::string_view name() const override { return "anneal"; }
  std::string_view summary() const override {
    return "simulated annealing over groups, pieces and ops, from the best simple placement";
  }
  /// Errors: those of Method::find; kInvalid for fewer than 2 groups.
  Result<Found> find(const Problem& problem, Executor& executor) const override;

  /// What `options.evaluations` comes to on this problem.
  std::uint64_t budget(const Problem& problem) const;

 private:
  const AnnealOptions options_;
};

}  // namespace emplace
