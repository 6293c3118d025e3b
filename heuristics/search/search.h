#pragma once
/// What every search shares: its budget, the best placement so far, and who is told of a better one.

#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "heuristics/method.h"
#include "heuristics/search/moving_cost.h"

namespace emplace {

/// One search on one thread. A budget of evaluations alone makes it a function of problem and seed.
class Search {
 public:
  /// `usual`: evaluations where neither number nor time is given.
  Search(const Problem& problem, std::uint64_t usual);

  const Problem& problem() const { return problem_; }
  bool found_any() const { return !best_.placement.empty(); }
  const Placement& best() const { return best_.placement; }
  const Measurement& best_measurement() const { return best_.measurement; }
  std::uint64_t evaluations() const { return best_.evaluations; }

  /// Share of the budget that is spent, from 0 to 1; 1 also when the search was told to stop.
  double spent() const;
  /// True once no evaluation is left; never where only time counts. Quicker than spent().
  bool used_up() const { return counted_ && best_.evaluations >= budget_; }
  /// A placement found elsewhere, and what that took.
  void take(const Found& found);
  /// Counts an evaluation and keeps what it shows, if that is better.
  Result<Standing> look(MovingCost& cost);
  /// Errors: kNoPlacement if nothing was found; those of the executor.
  Result<Found> finish(Executor& executor) &&;

 private:
  const Problem& problem_;
  const std::uint64_t budget_;
  const Nanos begun_;
  Found best_;
  Standing standing_;
  const bool timed_, counted_;
};

/// Shows `search` the problem's starts, or where it has none what the simple methods find.
/// Errors: kNoPlacement if there is nothing to begin from; those of the executor.
Result<Unit> begin_search(const Problem& problem, Executor& executor, Search& search);

/// A part of a search's budget.
class Slot {
 public:
  /// The part between two shares of what `search` may spend in all.
  Slot(const Search& search, double from, double to) : search_{search}, from_{from}, to_{to} {}
  /// The next `evaluations`, but no more than there is.
  Slot(const Search& search, std::uint64_t evaluations)
      : search_{search}, first_{search.evaluations()}, count_{evaluations} {}

  /// 0 at its beginning; 1 or more when it is over.
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
