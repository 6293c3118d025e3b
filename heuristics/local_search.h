#pragma once
/// Iterated local search: what repair of one place at a time finds.

#include <cstdint>
#include <string_view>

#include "heuristics/method.h"
#include "heuristics/search/move_proposer.h"

namespace emplace {

struct LocalSearchOptions {
  std::uint64_t evaluations = 0;  ///< 0: as many as annealing would take.
  std::uint64_t stream = 0;       ///< Of random numbers: searches side by side take streams far apart.
  MoveProposerFactory moves;      ///< Empty: random moves of several kinds.
};

/// `local-search`: a window of the graph (what lies between two places that no tensor jumps over, or any
/// range) is put on one device as a whole and built up again by a cold walk; what is no worse stays. Step
/// times are walked over in scope groups, loads and latencies in co-location classes. Splits begin several
/// times: from everything on the CPU, from the best start, and from the best so far.
class LocalSearch final : public Method {
 public:
  explicit LocalSearch(LocalSearchOptions options = {}) : options_{options} {}
  std::string_view name() const override { return "local-search"; }
  std::string_view summary() const override { return "windows of the graph torn down and built up again"; }
  Result<Found> find(const Problem& problem, Executor& executor) const override;

 private:
  const LocalSearchOptions options_;
};

}  // namespace emplace
