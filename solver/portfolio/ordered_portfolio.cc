#include "solver/portfolio/ordered_portfolio.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "placement/order.h"
#include "solver/portfolio/derived_problem.h"
#include "solver/search/moving_cost.h"

namespace emplace {
namespace {

// Latest ends of the parts of the budget: the heuristics, and their placements in simple orders.
constexpr double kHeuristicsEnd = 0.3, kPairsEnd = 0.38;
// Shares of the time after these: one trial, and the search for placements. The search for orders gets the
// remainder.
constexpr double kTrialShare = 0.05, kPlacementShare = 0.92;
constexpr std::size_t kTrials = 3;  // Besides that in issue order.

/// A heuristic, with a record of its result also where it does not fit.
class Recorded final : public Method {
 public:
  Recorded(const Method& method, std::vector<std::pair<std::string, Answer>>& found)
      : method_{method}, found_{found} {}
  std::string_view name() const override { return method_.name(); }
  std::string_view summary() const override { return method_.summary(); }
  Result<Answer> find(const Problem& problem, Executor& executor) const override {
    auto found = method_.find(problem, executor);
    if (found) found_.emplace_back(method_.name(), *found);
    return found;
  }

 private:
  const Method& method_;
  std::vector<std::pair<std::string, Answer>>& found_;
};

/// A placement and an order to start a search from.
struct Pair {
  std::string method;
  Placement placement;
  OpOrder order;
  Measurement measurement;
};

class Ordered {
 public:
  Ordered(const Problem& problem, const Judge& judge, Executor& executor)
      : problem_{problem},
        judge_{judge},
        executor_{executor},
        context_{problem.context},
        clock_{*context_.clock},
        start_{clock_.now()},
        budget_s_{std::max(0.0, std::chrono::duration<double>(context_.deadline - start_).count())} {}

  Result<Answer> run(const std::vector<const Method*>& methods) && {
    EMPLACE_TRY(run_heuristics(methods));
    if (!ended()) {
      EMPLACE_TRY(try_pairs());
    }
    if (!ended()) {
      EMPLACE_TRY(search_placements(best_pair(), spent() + kPlacementShare * (1 - spent())));
    }
    if (!ended()) {
      EMPLACE_TRY(search_orders(1));
    }
    EMPLACE_TRY(executor_.measure(best_.placement, best_.issue));
    best_.findings = std::move(findings_);
    return std::move(best_);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(clock_.now() - start_).count(); }
  double spent() const { return seconds() / budget_s_; }
  bool stopped() const { return context_.stopped && context_.stopped(); }
  bool ended() const {
    const Measurement& measured = best_.measurement;
    return spent() >= 1 || stopped() || !context_.searches ||
           (measured.valid && reaches_bound(measured.step_time_s, context_.bound_s));
  }
  double energy(const Measurement& measured) const {
    return evaluation_of(measured, smallest_memory(problem_.devices)).energy;
  }
  Nanos time_at(double share) const { return start_ + as_nanos(share * budget_s_); }

  void report(const Finding& finding, const Placement& placement, const OpOrder& order) {
    if (!findings_.empty() && finding.seconds >= findings_.back().seconds) return;
    findings_.push_back(finding);
    if (context_.better) context_.better(finding, placement, order);
  }
  /// Keeps a result if it is the best.
  void take(const std::string& method, const Placement& placement, const Measurement& measured,
            const OpOrder& order, std::uint64_t evaluations) {
    best_.evaluations += evaluations;
    if (!better(measured, best_.measurement)) return;
    best_.placement = placement;
    best_.measurement = measured;
    best_.method = method;
    best_.order = order;
    if (measured.valid) report({method, measured.step_time_s, seconds()}, placement, order);
  }

  /// Runs the methods in issue order.
  Result<Unit> run_heuristics(const std::vector<const Method*>& methods) {
    std::vector<Recorded> recorded;
    std::vector<const Method*> recording;
    recorded.reserve(methods.size());
    recording.reserve(methods.size());
    for (const Method* method : methods) recording.push_back(&recorded.emplace_back(*method, heuristics_));
    for (const Answer& start : context_.starts) heuristics_.emplace_back(start.method, start);
    Problem problem = problem_;
    problem.context.searches = false;
    problem.context.stopped = [&] { return stopped() || (!heuristics_.empty() && spent() > kHeuristicsEnd); };
    problem.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder&) {
      report(finding, placement, {});
    };
    EMPLACE_TRY_ASSIGN(best_, run_portfolio(recording, problem, judge_, executor_));
    if (best_.measurement.valid) best_.issue_seconds = best_.measurement.step_time_s;
    return Unit{};
  }

  /// Searches for an order of the best placement, on all threads.
  Result<Unit> search_orders(double until) {
    const Placement placement = best_.placement;
    if (context_.on_method_start) context_.on_method_start("order", true);
    const std::span<const OpOrder> starts{&best_.order, best_.order.empty() ? 0u : 1u};
    std::vector<std::optional<Result<Answer>>> found(context_.threads);
    std::atomic<bool> stop_requested = false;
    ++searches_;
    const auto search = [&](unsigned thread) {
      Problem problem = problem_;
      problem.context = {.clock = &clock_, .deadline = time_at(until), .stopped = [&, thread] {
                           if (thread == 0 && stopped()) stop_requested = true;
                           return stop_requested.load();
                         }};
      found[thread] = search_order(problem, placement, judge_.simulator, searches_ << 10 | thread, starts);
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 1; t < found.size(); ++t) threads.emplace_back(search, t);
      search(0);
    }
    for (auto& each : found) {
      if (!each->ok()) return each->error();
      const Answer& one = each->value();
      take("order", placement, one.measurement, one.order, one.evaluations);
    }
    return Unit{};
  }

  Pair best_pair() const { return {best_.method, best_.placement, best_.order, best_.measurement}; }

  /// Searches for placements of the graph in the order of the pair, starting from its placement.
  Result<Unit> search_placements(const Pair& pair, double until) {
    const OpOrder order = pair.order.empty() ? issue_order(problem_.graph) : pair.order;
    DerivedProblem own{problem_, judge_, renumbered(problem_.graph, order), order};
    Answer start{.placement = renumbered(pair.placement, order), .evaluations = 1, .method = pair.method};
    EMPLACE_TRY(own.model().measure(start.placement, start.measurement));
    Problem problem = own.problem();
    problem.context = context_;
    problem.context.starts = {&start, 1};
    problem.context.deadline = time_at(until);
    if (clock_.now() >= problem.context.deadline) return Unit{};
    problem.context.better = [&, offset_s = seconds()](const Finding& finding, const Placement& placement,
                                                       const OpOrder&) {
      report({finding.method, finding.seconds, finding.at_s + offset_s}, original(placement, order),
             pair.order);
    };
    EMPLACE_TRY_ASSIGN(const auto answer, run_portfolio({}, problem, judge_, own.model()));
    const Measurement& measured = answer.measurement;
    take(answer.method, original(answer.placement, order), measured, pair.order, answer.evaluations);
    if (pair.order.empty() && measured.valid &&
        (best_.issue_seconds == 0 || measured.step_time_s < best_.issue_seconds))
      best_.issue_seconds = measured.step_time_s;
    return Unit{};
  }

  /// The heuristics' placements in simple orders, the best pair of each kind of order, by energy: a placement
  /// that nearly fits is a better start than one that fits because it hardly uses a device.
  Result<std::vector<Pair>> simple_pairs() {
    std::vector<Pair> best;
    Simulator simulator{problem_.graph, problem_.devices, judge_.simulator};
    // The most promising placements come first, in case time is short.
    std::stable_sort(heuristics_.begin(), heuristics_.end(), [&](const auto& a, const auto& b) {
      return energy(a.second.measurement) < energy(b.second.measurement);
    });
    for (const auto& [method, found] : heuristics_) {
      if (!best.empty() && (spent() > kPairsEnd || stopped())) break;
      auto orders = simple_orders(problem_, found.placement);
      best.resize(orders.size());
      for (std::size_t k = 0; k < orders.size(); ++k) {
        Measurement measured;
        EMPLACE_TRY(simulator.set_order(orders[k]));
        EMPLACE_TRY(simulator.measure(found.placement, measured));
        ++best_.evaluations;
        Pair pair{method, found.placement, std::move(orders[k]), measured};
        if (best[k].placement.empty() || energy(measured) < energy(best[k].measurement))
          best[k] = std::move(pair);
      }
    }
    return best;
  }

  /// Searches briefly for placements from the best pairs, that in issue order among them.
  Result<Unit> try_pairs() {
    EMPLACE_TRY_ASSIGN(auto pairs, simple_pairs());
    if (problem_.graph.ids_are_topological()) pairs[0].order.clear();  // The issue order.
    for (const Pair& pair : pairs) take(pair.method, pair.placement, pair.measurement, pair.order, 0);
    const auto by_energy = [&](const Pair& a, const Pair& b) {
      return energy(a.measurement) < energy(b.measurement);
    };
    std::stable_sort(pairs.begin() + 1, pairs.end(), by_energy);
    pairs.resize(std::min(pairs.size(), kTrials + 1));
    std::stable_sort(pairs.begin(), pairs.end(), by_energy);
    const double from = spent();
    for (std::size_t k = 0; k < pairs.size() && !ended(); ++k)
      EMPLACE_TRY(search_placements(pairs[k], from + kTrialShare * (1 - from) * static_cast<double>(k + 1)));
    return Unit{};
  }

  const Problem& problem_;
  const Judge& judge_;
  Executor& executor_;
  const Context& context_;
  const Clock& clock_;
  const Nanos start_;
  const double budget_s_;
  Answer best_;
  std::vector<Finding> findings_;
  std::vector<std::pair<std::string, Answer>>
      heuristics_;              // Results in issue order, also those that do not fit.
  std::uint64_t searches_ = 0;  // Searches for an order so far.
};

}  // namespace

Result<Answer> run_ordered_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                                     const Judge& judge, Executor& executor) {
  if (judge.objective != Objective::kStepTime)
    return Error{Errc::kUnsupported, "an order needs --objective step-time"};
  if (judge.simulator.dispatch != Dispatch::kProgram)
    return Error{Errc::kUnsupported, "an order needs --dispatch program"};
  return Ordered{problem, judge, executor}.run(methods);
}

}  // namespace emplace
