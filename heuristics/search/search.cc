#include "heuristics/search/search.h"

#include <algorithm>
#include <utility>

namespace emplace {

Search::Search(const Problem& problem, std::uint64_t usual)
    : problem_{problem},
      budget_{problem.limits.evaluations > 0 ? problem.limits.evaluations : usual},
      begun_{problem.limits.clock != nullptr ? problem.limits.clock->now() : Nanos{}},
      timed_{problem.limits.clock != nullptr},
      counted_{!timed_ || problem.limits.evaluations > 0} {}

double Search::spent() const {
  const SearchLimits& limits = problem_.limits;
  if (limits.stopped && limits.stopped()) return 1;
  if (used_up()) return 1;
  const double counted = counted_ ? static_cast<double>(best_.evaluations) / static_cast<double>(budget_) : 0;
  if (!timed_) return counted;
  const Nanos now = limits.clock->now();
  if (now >= limits.deadline) return 1;
  const double timed =
      static_cast<double>((now - begun_).count()) / static_cast<double>((limits.deadline - begun_).count());
  return std::min(1.0, std::max(timed, counted));
}

void Search::take(const Found& found) {
  const std::uint64_t evaluations = best_.evaluations + found.evaluations;
  const Standing standing = standing_of(found.measurement);
  if (!found_any() || better(standing, standing_)) {
    best_ = found;
    standing_ = standing;
  }
  best_.evaluations = evaluations;
}

Result<Standing> Search::look(MovingCost& cost) {
  const auto standing = cost.standing();
  ++best_.evaluations;
  if (!standing) return standing;
  if (!found_any() || better(*standing, standing_)) {
    best_.placement = cost.placement();
    standing_ = *standing;
    if (problem_.limits.better && standing->valid) problem_.limits.better(best_.placement, standing->seconds);
  }
  return standing;
}

Result<Found> Search::finish(Executor& executor) && {
  if (!found_any()) return Error{Errc::kNoPlacement, "there is no device for this method"};
  EMPLACE_TRY(executor.measure(best_.placement, best_.measurement));
  best_.notes.clear();  // What a start said of itself.
  return std::move(best_);
}

Result<Unit> begin_search(const Problem& problem, Executor& executor, Search& search) {
  for (const Found& start : problem.limits.starts) search.take(start);
  if (!problem.limits.starts.empty()) return Unit{};
  Problem simple = problem;
  // None of them may take more than half of the time.
  const SearchLimits& limits = problem.limits;
  simple.limits = {.stopped = [&] {
    return (limits.stopped && limits.stopped()) || (limits.clock != nullptr && search.spent() > 0.5);
  }};
  for (const Method* method : all_methods()) {
    auto found = method->find(simple, executor);
    if (found) {
      search.take(*found);
    } else if (found.error().code != Errc::kNoPlacement) {
      return found.error();
    }
  }
  if (!search.found_any()) return Error{Errc::kNoPlacement, "there is no device for this method"};
  const Measurement& best = search.best_measurement();
  if (limits.better && best.valid) limits.better(search.best(), best.step_time_s);
  return Unit{};
}

}  // namespace emplace
