#pragma once
/// Simulated annealing: a search without learning, and the reference for learned placers.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "solver/method.h"
#include "solver/search/move_proposer.h"

namespace emplace {

/// Whether step times are annealed over large weights and whole scopes (weight_level()).
enum class WeightWalk : std::uint8_t {
  kFirst,  ///< For kWeightsShare of the budget, before the other walks, if there are fewer units than groups.
  kNone,   ///< Not: an earlier walk has, and this one would lose what smaller units have gained.
  kOnly,   ///< No other walk follows.
};

inline constexpr double kWeightsShare = 0.1;  ///< Share of the budget for the walk over large weights.

struct AnnealOptions {
  /// Total number of measured placements, including those of the simple methods it starts from (these are
  /// always measured). 0: 20,000, and fewer on graphs where that would take more than 20 s.
  std::uint64_t evaluations = 0;
  std::size_t groups = 256;  ///< Number of groups at the coarsest level, at least 2.
  /// Factor > 0 on all initial temperatures; lower it if an earlier walk has searched this problem.
  double heat = 1;
  WeightWalk weights = WeightWalk::kFirst;
  std::uint64_t stream = 0;  ///< Random stream; parallel searches use streams far apart.
  /// Empty: random moves of several kinds. A given one gets most of the budget on the finest level,
  /// unless there are few evaluations for its size.
  MoveProposerFactory moves;
};

/// `anneal`: Metropolis walks over units of decreasing size: large weights with their readers and the other
/// scopes over all time steps, then scope groups, then scopes by phase, then co-location classes. A move puts
/// one unit, two swapped units, a unit with its neighbours, a range of time steps of one scope, or a range in
/// issue order on another device. The cost is Evaluation::energy. The first walk starts from the best of the
/// simple methods (or of Context::starts), each later one from the best so far. For the load and latency
/// objectives the walks are over classes, with several heating cycles. Without a deadline the result is a
/// function of problem, seed and options.
class Anneal final : public Method {
 public:
  explicit Anneal(AnnealOptions options = {}) : options_{std::move(options)} {}
  std::string_view name() const override { return "anneal"; }
  std::string_view summary() const override {
    return "simulated annealing over groups, pieces and ops, from the best simple placement";
  }
  /// Errors: those of Method::find; kInvalid for fewer than 2 groups.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

  /// Number of evaluations on this problem, from options and limits.
  std::uint64_t budget(const Problem& problem) const;

 private:
  const AnnealOptions options_;
};

}  // namespace emplace
