#pragma once
/// Shared by all searches: the budget, the best placement so far, and the callback for better ones.

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "solver/method.h"
#include "solver/search/moving_cost.h"

namespace emplace {

/// One search on one thread. With only an evaluation limit it is a function of problem and seed.
class Search {
 public:
  /// `usual`: number of evaluations if the problem limits neither evaluations nor time.
  Search(const Problem& problem, std::uint64_t usual);

  const Problem& problem() const { return problem_; }
  bool found_any() const { return !best_.placement.empty(); }
  const Placement& best() const { return best_.placement; }
  const Measurement& best_measurement() const { return best_.measurement; }
  std::uint64_t evaluations() const { return best_.evaluations; }

  /// Share of the budget that is spent, from 0 to 1; 1 also after a stop request.
  double spent() const;
  /// True if no evaluation is left; never true with only a time limit. Cheaper than spent().
  bool used_up() const { return counted_ && best_.evaluations >= budget_; }
  /// Adds a placement found elsewhere and its evaluations.
  void take(const Answer& found);
  /// Evaluates `cost`, counts it, and keeps the placement if it is the best.
  Result<Evaluation> evaluate(MovingCost& cost);
  /// The same, or nothing if it takes longer than the limit and is no better than the best.
  Result<std::optional<Evaluation>> evaluate_within(MovingCost& cost, double limit_s);
  /// Errors: kNoPlacement if no placement was found; those of the executor.
  Result<Answer> finish(Executor& executor) &&;

 private:
  void keep_if_best(const MovingCost& cost, const Evaluation& evaluation);

  const Problem& problem_;
  const std::uint64_t budget_;
  const Nanos start_;
  Answer best_;
  Evaluation evaluation_;
  const bool timed_, counted_;
};

/// Adds the problem's starts to `search`, or without any the results of the simple methods. Errors:
/// kNoPlacement if there is no start; those of the executor.
Result<Unit> start_search(const Problem& problem, Executor& executor, Search& search);

/// A part of a search's budget.
class Slot {
 public:
  /// The part between two shares of the budget of `search`.
  Slot(const Search& search, double from, double to) : search_{search}, from_{from}, to_{to} {}
  /// The next `evaluations`, limited by the budget.
  Slot(const Search& search, std::uint64_t evaluations)
      : search_{search}, first_{search.evaluations()}, count_{evaluations} {}

  /// 0 at its start; 1 or more at its end.
  double progress() const {
    const double spent = search_.spent();
    if (spent >= 1) return 1;
    if (count_ > 0) return static_cast<double>(search_.evaluations() - first_) / static_cast<double>(count_);
    return to_ > from_ ? (spent - from_) / (to_ - from_) : 1;
  }

 private:
  const Search& search_;
  double from_ = 0, to_ = 1;
  std::uint64_t first_ = 0, count_ = 0;
};

}  // namespace emplace
