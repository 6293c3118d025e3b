#include "solver/solve.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/text/words.h"
#include "graph/memory_plan.h"
#include "graph/training/micro_batch.h"
#include "placement/bounds/feasibility.h"
#include "placement/machine/cost_model.h"
#include "solver/memory/plan_search.h"
#include "solver/memory/planned_methods.h"
#include "solver/methods.h"
#include "solver/pipeline/pipeline_search.h"
#include "solver/pipeline/strategy_search.h"
#include "solver/portfolio/ordered_portfolio.h"
#include "solver/portfolio/portfolio.h"
#include "solver/search/distinct.h"
#include "solver/search/robust.h"

namespace emplace {
namespace {

// With placements that are robust or that differ: the share of the budget that searches for the fastest
// placement, and the number of its findings that the search for a robust one starts from.
constexpr double kFastestShare = 0.6;
constexpr std::size_t kKept = 4;

bool is_search(const Method& method) {
  const auto all = search_methods();
  return std::find(all.begin(), all.end(), &method) != all.end();
}

/// One method by its name. A search takes the whole budget; without one it is a function of the request.
Result<Answer> by_method(const Request& request, const Problem& problem, Executor& model,
                         const LearnedMethods& learned) {
  std::unique_ptr<Method> pretrained;
  if (request.method == "pretrained") {
    EMPLACE_TRY_ASSIGN(pretrained, learned.pretrained(request.weights, request.samples));
  }
  EMPLACE_TRY_ASSIGN(const Method* method,
                     pretrained ? Result<const Method*>{pretrained.get()} : find_method(request.method));
  const Context& context = problem.context;
  const bool searches = !pretrained && is_search(*method);
  if (context.on_method_start) context.on_method_start(request.method, searches);
  Problem own = problem;
  own.context = {.stopped = context.stopped};
  if (searches) {
    if (request.has_budget()) {
      own.context.clock = context.clock;
      own.context.deadline = context.deadline;
    }
    own.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder& order) {
      if (context.better) context.better({request.method, finding.seconds, finding.at_s}, placement, order);
    };
  }
  auto answer = method->find(own, model);
  if (!answer && answer.error().code == Errc::kNoPlacement)
    return Error{Errc::kNoPlacement, request.method + ": " + answer.error().context + "; try another method"};
  if (answer) answer->method = request.method;
  return answer;
}

/// `auto`, in issue order, for placements that differ or that hold under noise; the last part of the budget
/// searches for these.
Result<Answer> several(const Request& request, const Problem& problem, Executor& model,
                       const std::vector<const Method*>& methods) {
  std::vector<Placement> found;  // The last ones, best last.
  Problem fastest = problem;
  const Context& context = problem.context;
  fastest.context.deadline =
      context.clock->now() + as_nanos(kFastestShare * request.budget_or(kDefaultBudget_s));
  fastest.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder& order) {
    found.push_back(placement);
    if (found.size() > kKept) found.erase(found.begin());
    if (context.better) context.better(finding, placement, order);
  };
  EMPLACE_TRY_ASSIGN(auto answer, run_portfolio(methods, fastest, request.judge, model));
  if (!answer.measurement.valid) return answer;
  if (context.on_method_start)
    context.on_method_start(request.robust ? "robust" : "best of " + std::to_string(request.best_of), true);
  const auto replaced_by = [&](Answer other, const char* method) {
    if (other.placement != answer.placement) answer.method = method;
    answer.placement = std::move(other.placement);
    answer.measurement = std::move(other.measurement);
    answer.notes = std::move(other.notes);
  };
  if (request.robust) {
    found.push_back(answer.placement);
    EMPLACE_TRY_ASSIGN(auto robust, search_robust(problem, request, found));
    answer.evaluations += robust.evaluations;
    answer.fastest = std::move(robust.fastest);
    replaced_by(std::move(robust), "robust");
    return answer;
  }
  EMPLACE_TRY_ASSIGN(auto all, search_distinct(problem, request, answer));
  for (const Answer& each : all)
    if (each.placement != answer.placement) answer.evaluations += each.evaluations;
  answer.others.assign(std::move_iterator{all.begin() + 1}, std::move_iterator{all.end()});
  for (Answer& other : answer.others) other.method = "anneal";
  replaced_by(std::move(all.front()), "anneal");
  return answer;
}

}  // namespace

Result<Answer> solve(const Request& request, Executor& model, const Context& context,
                     const LearnedMethods& learned) {
  // 1. The request: settings that go together.
  EMPLACE_TRY(check(request, learned));
  if (context.clock == nullptr || request.graph == nullptr || request.machine == nullptr)
    return invalid("a request", "needs a graph, a machine and a clock");
  const OpGraph& graph = *request.graph;
  const DeviceSet& machine = *request.machine;

  // 2. The problem: constraints, costs, and what the search may use.
  std::optional<Constraints> own;
  if (request.constraints == nullptr) {
    EMPLACE_TRY_ASSIGN(own, Constraints::make(graph, machine));
  }
  const Constraints& constraints = own ? *own : *request.constraints;
  const CostTable costs{graph, machine};
  Problem problem{graph, machine, constraints, costs, request.seed, request.judge.objective};
  problem.context = {.clock = context.clock,
                     .threads = request.threads == 0 ? usable_cores() : request.threads,
                     .bound_s = context.bound_s,
                     .moves = learned.moves(),
                     .stopped = context.stopped,
                     .on_method_start = context.on_method_start,
                     .better = context.better};

  // 3. Proofs: nothing fits, or nothing is faster than the bound, at which auto ends.
  if (fits_a_step(request.judge, graph) && !request.known_to_fit) {
    EMPLACE_TRY(must_fit(graph, machine, constraints, request.allowed().recompute));
  }
  if (context.bound_s == 0)
    problem.context.bound_s = bound_of(request.judge, graph, machine, constraints, request.allowed()).seconds;

  // 4. A method that learns, or a policy alone.
  const Allowed allowed = request.allowed();
  if (learned.learns(request.method) || request.by_policy()) {
    if (allowed.memory()) EMPLACE_TRY(check_plannable(graph));
    return learned.learn(request, request.budget_or(request.policy.empty() ? kDefaultBudget_s : 0));
  }

  // 5. A heuristic, a search, or the pretrained policy.
  const auto start_budget = [&] {
    problem.context.deadline = context.clock->now() + as_nanos(request.budget_or(kDefaultBudget_s));
  };
  if (request.method != "auto") {
    start_budget();
    auto answer = by_method(request, problem, model, learned);
    // The method has chosen devices; what is decided about memory follows.
    if (answer && allowed.memory()) EMPLACE_TRY(decide_memory(*answer, problem, request.judge, allowed));
    return answer;
  }

  // 6. auto: heuristics, then searches, from the placement of a policy if the request names one.
  const std::vector<const Method*> methods = learned.portfolio_methods();
  std::vector<Answer> starts;
  if (!request.policy.empty()) {
    Request devices_alone = request;
    devices_alone.allow.clear();
    EMPLACE_TRY_ASSIGN(auto placed, learned.learn(devices_alone, 0));
    starts.push_back(std::move(placed));
    problem.context.starts = starts;
  }
  start_budget();
  if (request.judge.strategy.pipelined())
    return request.searches_replicas() ? search_strategies(methods, problem, request.judge, allowed)
                                       : search_pipelines(methods, problem, request.judge, model, allowed);
  if (allowed.memory()) return search_plans(methods, problem, request.judge, model, allowed);
  if (allowed.order) return run_ordered_portfolio(methods, problem, request.judge, model);
  if (request.robust || request.best_of > 1) return several(request, problem, model, methods);
  return run_portfolio(methods, problem, request.judge, model);
}

Result<Answer> solve(const Request& request, const Context& context) {
  if (request.graph == nullptr || request.machine == nullptr)
    return invalid("a request", "needs a graph and a machine");
  EMPLACE_TRY(check_strategy(request.judge));
  EMPLACE_TRY(check_strategy(request.judge.strategy, *request.machine));
  if (request.judge.strategy.pipelined()) EMPLACE_TRY(check_micro_batches(*request.graph));
  const auto model = make_model(*request.graph, *request.machine, request.judge);
  return solve(request, *model, context);
}

}  // namespace emplace
