#pragma once
/// Iterated local search: repairs one part of the placement at a time.

#include <cstdint>
#include <string_view>
#include <utility>

#include "solver/method.h"
#include "solver/search/move_proposer.h"

namespace emplace {

struct LocalSearchOptions {
  std::uint64_t evaluations = 0;  ///< Number of evaluations; 0: as many as annealing.
  std::uint64_t stream = 0;       ///< Random stream; parallel searches use streams far apart.
  MoveProposerFactory moves;      ///< Empty: random moves of several kinds.
};

/// `local-search`: puts a window of the graph (between two points that no tensor crosses, or any range) on
/// one device and rebuilds it by a cold walk; keeps the result if it is no worse. Step times are searched
/// over scope groups, loads and latencies over co-location classes. Splits start several times: from
/// everything on the CPU, from the best start, and from the best so far.
class LocalSearch final : public Method {
 public:
  explicit LocalSearch(LocalSearchOptions options = {}) : options_{std::move(options)} {}
  std::string_view name() const override { return "local-search"; }
  std::string_view summary() const override { return "rebuilds one window of the graph at a time"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const LocalSearchOptions options_;
};

}  // namespace emplace
