#include "solver/search/search.h"

#include "solver/methods.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace emplace {

Search::Search(const Problem& problem, std::uint64_t usual)
    : problem_{problem},
      budget_{problem.context.evaluations > 0 ? problem.context.evaluations : usual},
      start_{problem.context.clock != nullptr ? problem.context.clock->now() : Nanos{}},
      timed_{problem.context.clock != nullptr},
      counted_{!timed_ || problem.context.evaluations > 0} {}

double Search::spent() const {
  const Context& context = problem_.context;
  if (context.stopped && context.stopped()) return 1;
  if (used_up()) return 1;
  const double counted = counted_ ? static_cast<double>(best_.evaluations) / static_cast<double>(budget_) : 0;
  if (!timed_) return counted;
  const Nanos now = context.clock->now();
  if (now >= context.deadline) return 1;
  const double timed =
      static_cast<double>((now - start_).count()) / static_cast<double>((context.deadline - start_).count());
  return std::min(1.0, std::max(timed, counted));
}

void Search::take(const Answer& found) {
  const std::uint64_t evaluations = best_.evaluations + found.evaluations;
  const Evaluation evaluation = evaluation_of(found.measurement, smallest_memory(problem_.devices));
  if (!found_any() || better(evaluation, evaluation_)) {
    best_ = found;
    evaluation_ = evaluation;
  }
  best_.evaluations = evaluations;
}

Result<Evaluation> Search::evaluate(MovingCost& cost) {
  auto evaluation = cost.evaluation();
  ++best_.evaluations;
  if (evaluation) keep_if_best(cost, *evaluation);
  return evaluation;
}

Result<std::optional<Evaluation>> Search::evaluate_within(MovingCost& cost, double limit_s) {
  // Without a valid placement a better one may take any time.
  const double best_s =
      found_any() && evaluation_.valid ? evaluation_.seconds : std::numeric_limits<double>::infinity();
  auto evaluation = cost.evaluation_within(std::max(limit_s, best_s));
  ++best_.evaluations;
  if (evaluation && *evaluation) keep_if_best(cost, **evaluation);
  return evaluation;
}

void Search::keep_if_best(const MovingCost& cost, const Evaluation& evaluation) {
  if (found_any() && !better(evaluation, evaluation_)) return;
  best_.placement = cost.placement();
  evaluation_ = evaluation;
  if (problem_.context.better && evaluation.valid)
    problem_.context.better({{}, evaluation.seconds, 0}, best_.placement, {});
}

Result<Answer> Search::finish(Executor& executor) && {
  if (!found_any()) return Error{Errc::kNoPlacement, "this method has no suitable device"};
  EMPLACE_TRY(executor.measure(best_.placement, best_.measurement));
  best_.notes.clear();  // Drop the notes of a start placement.
  return std::move(best_);
}

Result<Unit> start_search(const Problem& problem, Executor& executor, Search& search) {
  for (const Answer& start : problem.context.starts) search.take(start);
  if (!problem.context.starts.empty()) return Unit{};
  Problem simple = problem;
  // All of them together may take at most half of the time.
  const Context& context = problem.context;
  simple.context = {.stopped = [&] {
    return (context.stopped && context.stopped()) || (context.clock != nullptr && search.spent() > 0.5);
  }};
  for (const Method* method : all_methods()) {
    auto found = method->find(simple, executor);
    if (found) {
      search.take(*found);
    } else if (found.error().code != Errc::kNoPlacement) {
      return found.error();
    }
  }
  if (!search.found_any()) return Error{Errc::kNoPlacement, "this method has no suitable device"};
  const Measurement& best = search.best_measurement();
  if (context.better && best.valid) context.better({{}, best.step_time_s, 0}, search.best(), {});
  return Unit{};
}

}  // namespace emplace
