#include "solver/memory/plan_search.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "placement/order.h"
#include "solver/memory/plan_tuner.h"
#include "solver/portfolio/derived_problem.h"
#include "solver/portfolio/ordered_portfolio.h"
#include "solver/portfolio/portfolio.h"

namespace emplace {
namespace {

// Shares of the budget at whose end a stage ends.
constexpr double kBaseEnd = 0.15, kFreeEnd = 0.25, kLeanEnd = 0.4, kTuneEnd = 0.6, kPlaceEnd = 0.8,
                 kRetuneEnd = 0.88;
/// Stages before the refinement are shorter for graphs of at most this many ops: their searches end early,
/// and refinement finds the optimum of most.
constexpr std::size_t kSmallGraph = 100;
constexpr double kPaceOfSmall = 0.3;
/// Memory that is never full [B].
constexpr std::int64_t kEnough = std::int64_t{1} << 60;
/// The end of refinement if an order is searched afterwards.
constexpr double kRefineEnd = 0.9;

class PlanSearch {
 public:
  PlanSearch(const std::vector<const Method*>& methods, const Problem& problem, const Judge& judge,
             Executor& executor, const Allowed& allowed)
      : methods_{methods},
        problem_{problem},
        judge_{judge},
        executor_{executor},
        allowed_{allowed},
        tuner_{problem, judge.simulator, allowed},
        clock_{*problem.context.clock},
        start_{clock_.now()},
        budget_{std::max(Nanos{0}, problem.context.deadline - start_)},
        device_names_{problem.devices.names()} {
    for (std::uint32_t c = 0; c < problem.constraints.num_classes(); ++c)
      chooses_devices_ = chooses_devices_ || problem.constraints.allowed(c).count() > 1;
  }

  Result<Answer> run() && {
    EMPLACE_TRY(check_plannable(problem_.graph));
    EMPLACE_TRY(place_as_it_is());
    if (is_optimal()) return finish();
    if (chooses_devices_) {
      EMPLACE_TRY(place_freely());
      if (allowed_.recompute) EMPLACE_TRY(place_leanest());
    }
    EMPLACE_TRY(tune(kTuneEnd));
    if (chooses_devices_) {
      EMPLACE_TRY(place_planned(kPlaceEnd));
      EMPLACE_TRY(tune(kRetuneEnd));
    }
    begin("memory plan");
    PlannedPlacement refined = best_;
    EMPLACE_TRY(tuner_.refine(refined, 1, until(allowed_.order ? kRefineEnd : 1)));
    take(std::move(refined), method_);
    return finish();
  }

 private:
  Nanos at(double share) const {
    if (share <= kRetuneEnd && problem_.graph.num_ops() <= kSmallGraph) share *= kPaceOfSmall;
    return start_ + as_nanos(share * std::chrono::duration<double>(budget_).count());
  }
  std::function<bool()> until(double share) const {
    return [this, end = at(share)] { return clock_.now() >= end || stopped(); };
  }
  bool is_optimal() const {
    return best_.measurement.valid && reaches_bound(best_.measurement.step_time_s, problem_.context.bound_s);
  }
  bool stopped() const { return problem_.context.stopped && problem_.context.stopped(); }
  void begin(const std::string& what) const {
    if (problem_.context.on_method_start) problem_.context.on_method_start(what, true);
  }

  /// Limits and callbacks of a search until a share of the budget.
  Context context_until(double share) const {
    return {.clock = &clock_,
            .deadline = at(share),
            .threads = problem_.context.threads,
            .bound_s = problem_.context.bound_s,
            .moves = problem_.context.moves,
            .stopped = problem_.context.stopped,
            .on_method_start = problem_.context.on_method_start};
  }

  /// Keeps a plan if it is the best.
  void take(PlannedPlacement found, const std::string& method) {
    if (!best_.placement.empty() && !better(found.measurement, best_.measurement)) return;
    best_ = std::move(found);
    method_ = method;
    if (!best_.measurement.valid) return;
    const double seconds = std::chrono::duration<double>(clock_.now() - start_).count();
    findings_.push_back({method, best_.measurement.step_time_s, seconds});
  }

  Result<Unit> place_as_it_is() {
    if (!chooses_devices_) {
      PlannedPlacement only{.placement = Placement(problem_.graph.num_ops())};
      problem_.constraints.repair(only.placement);
      EMPLACE_TRY(executor_.measure(only.placement, only.measurement));
      ++evaluations_;
      starts_.push_back(only.placement);
      take(std::move(only), "the only placement");
      return Unit{};
    }
    Problem own = problem_;
    own.context = context_until(kBaseEnd);
    own.context.starts = problem_.context.starts;
    EMPLACE_TRY_ASSIGN(const Answer answer, run_portfolio(methods_, own, judge_, executor_));
    evaluations_ += answer.evaluations;
    starts_.push_back(answer.placement);
    take({{}, answer.placement, answer.measurement}, answer.method);
    return Unit{};
  }

  /// Finds the placement that is the fastest if it has enough memory: decisions may make it fit.
  Result<Unit> place_freely() {
    const DeviceSet devices = problem_.devices.with_memory(kEnough);
    const auto model = make_model(problem_.graph, devices, judge_);
    Problem own{problem_.graph, devices,       problem_.constraints,
                problem_.costs, problem_.seed, problem_.objective};
    own.context = context_until(kFreeEnd);
    EMPLACE_TRY_ASSIGN(const Answer answer, run_portfolio(methods_, own, judge_, *model));
    evaluations_ += answer.evaluations;
    PlannedPlacement found{.placement = answer.placement};
    EMPLACE_TRY(executor_.measure(found.placement, found.measurement));
    starts_.push_back(found.placement);
    take(std::move(found), answer.method);
    return Unit{};
  }

  /// Finds a placement for as little waiting memory as possible.
  Result<Unit> place_leanest() {
    if (best_.measurement.valid && starts_.back() == best_.placement) return Unit{};  // The fastest one fits.
    EMPLACE_TRY_ASSIGN(MemoryPlan plan, tuner_.leanest(best_.placement, until(kLeanEnd)));
    return place(std::move(plan), best_.placement, methods_, kLeanEnd);
  }

  /// Finds a placement for the best decisions so far.
  Result<Unit> place_planned(double end) { return place(best_.plan, best_.placement, {}, end); }

  Result<Unit> place(MemoryPlan plan, const Placement& from, const std::vector<const Method*>& methods,
                     double end) {
    if (clock_.now() >= at(end) || stopped()) return Unit{};
    EMPLACE_TRY_ASSIGN(PlannedGraph graph, planned(problem_.graph, plan, device_names_));
    Answer start{.placement = planned(from, graph), .evaluations = 1, .method = method_};
    DerivedProblem own{problem_, judge_, std::move(graph.graph), graph.source};
    own.problem().constraints.repair(start.placement);
    EMPLACE_TRY(own.model().measure(start.placement, start.measurement));
    Problem problem = own.problem();
    problem.context = context_until(end);
    problem.context.starts = {&start, 1};
    EMPLACE_TRY_ASSIGN(const Answer answer, run_portfolio(methods, problem, judge_, own.model()));
    evaluations_ += answer.evaluations;
    const Placement placement = original(answer.placement, graph);
    starts_.push_back(placement);
    take({std::move(plan), placement, answer.measurement}, answer.method);
    return Unit{};
  }

  /// Decides for the placements that were found since the last time.
  Result<Unit> tune(double end) {
    begin("memory plan");
    const std::vector<Placement> starts = std::exchange(starts_, {});
    const double from = std::chrono::duration<double>(clock_.now() - start_) / budget_;
    for (std::size_t k = 0; k < starts.size(); ++k) {
      const double share =
          from + (end - from) * static_cast<double>(k + 1) / static_cast<double>(starts.size());
      EMPLACE_TRY_ASSIGN(PlannedPlacement tuned, tuner_.tune(starts[k], until(std::max(share, from))));
      take(std::move(tuned), method_);
    }
    return Unit{};
  }

  /// The answer, with an order if one is better.
  Result<Answer> finish() {
    EMPLACE_TRY_ASSIGN(PlannedGraph graph, planned(problem_.graph, best_.plan, device_names_));
    // What nothing needs to run again is no decision.
    best_.plan.recompute = graph.recomputed;
    std::ranges::sort(best_.plan.recompute);
    Answer answer{.placement = best_.placement, .measurement = best_.measurement, .method = method_};
    answer.plan = best_.plan;
    if (allowed_.order && clock_.now() < at(1) && !stopped() && !is_optimal()) {
      const Answer start{
          .placement = planned(best_.placement, graph), .measurement = best_.measurement, .method = method_};
      DerivedProblem own{problem_, judge_, std::move(graph.graph), graph.source};
      Problem problem = own.problem();
      problem.context = context_until(1);
      problem.context.starts = {&start, 1};
      EMPLACE_TRY_ASSIGN(const Answer ordered, run_ordered_portfolio({}, problem, judge_, own.model()));
      evaluations_ += ordered.evaluations;
      if (better(ordered.measurement, answer.measurement)) {
        answer.placement = original(ordered.placement, graph);
        answer.measurement = ordered.measurement;
        answer.order = ordered.order;
        answer.method = ordered.method;
        answer.issue = ordered.issue;
        answer.issue_seconds = ordered.issue_seconds;
      }
    }
    answer.findings = std::move(findings_);
    answer.evaluations = evaluations_ + tuner_.evaluations();
    return answer;
  }

  const std::vector<const Method*>& methods_;
  const Problem& problem_;
  const Judge& judge_;
  Executor& executor_;
  const Allowed allowed_;
  PlanTuner tuner_;
  const Clock& clock_;
  const Nanos start_, budget_;
  const std::vector<std::string> device_names_;
  bool chooses_devices_ = false;
  std::vector<Placement> starts_;  // Placements without decisions of their own.
  PlannedPlacement best_;
  std::string method_;  // The method that found the best placement.
  std::vector<Finding> findings_;
  std::uint64_t evaluations_ = 0;
};

}  // namespace

Result<Answer> search_plans(const std::vector<const Method*>& methods, const Problem& problem,
                            const Judge& judge, Executor& executor, const Allowed& allowed) {
  return PlanSearch{methods, problem, judge, executor, allowed}.run();
}

}  // namespace emplace
