#include "solver/portfolio/ordered_portfolio.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "placement/order.h"
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
  Recorded(const Method& method, std::vector<std::pair<std::string, Found>>& found)
      : method_{method}, found_{found} {}
  std::string_view name() const override { return method_.name(); }
  std::string_view summary() const override { return method_.summary(); }
  Result<Found> find(const Problem& problem, Executor& executor) const override {
    auto found = method_.find(problem, executor);
    if (found) found_.emplace_back(method_.name(), *found);
    return found;
  }

 private:
  const Method& method_;
  std::vector<std::pair<std::string, Found>>& found_;
};

/// A placement and an order to start a search from.
struct Pair {
  std::string method;
  Placement placement;
  OpOrder order;
  Measurement measurement;
};

/// The problem with its ops renumbered. Not to be moved: the problem refers to its members.
class RenumberedProblem {
 public:
  RenumberedProblem(const Problem& problem, const Judge& judge, OpOrder order)
      : order_{std::move(order)},
        graph_{renumbered(problem.graph, order_)},
        constraints_{renumbered(problem.constraints, graph_, problem.devices, order_)},
        costs_{graph_, problem.devices},
        model_{make_model(graph_, problem.devices, judge)},
        problem_{graph_, problem.devices, constraints_, costs_, problem.seed, problem.objective} {}
  RenumberedProblem(const RenumberedProblem&) = delete;
  RenumberedProblem& operator=(const RenumberedProblem&) = delete;

  const OpOrder& order() const { return order_; }
  const Problem& problem() const { return problem_; }
  Executor& model() { return *model_; }

 private:
  const OpOrder order_;
  const OpGraph graph_;
  const Constraints constraints_;
  const CostTable costs_;
  const std::unique_ptr<Executor> model_;
  const Problem problem_;
};

class Ordered {
 public:
  Ordered(const Problem& problem, const Judge& judge, Executor& executor, const Clock& clock,
          const OrderedOptions& options)
      : problem_{problem},
        judge_{judge},
        executor_{executor},
        clock_{clock},
        options_{options},
        start_{clock.now()} {}

  Result<OrderedAnswer> run(const std::vector<const Method*>& methods) && {
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
    EMPLACE_TRY(executor_.measure(best_.answer.found.placement, best_.issue));
    best_.answer.findings = std::move(findings_);
    return std::move(best_);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(clock_.now() - start_).count(); }
  double spent() const { return seconds() / options_.portfolio.budget_s; }
  bool stopped() const { return options_.portfolio.stopped && options_.portfolio.stopped(); }
  bool ended() const {
    const Measurement& measured = best_.answer.found.measurement;
    return spent() >= 1 || stopped() || !options_.portfolio.searches ||
           (measured.valid && reaches_bound(measured.step_time_s, options_.portfolio.bound_s));
  }
  double energy(const Measurement& measured) const {
    return evaluation_of(measured, smallest_memory(problem_.devices)).energy;
  }
  Nanos time_at(double share) const {
    return start_ + std::chrono::duration_cast<Nanos>(
                        std::chrono::duration<double>(share * options_.portfolio.budget_s));
  }

  void report(const Finding& finding, const Placement& placement, const OpOrder& order) {
    if (!findings_.empty() && finding.seconds >= findings_.back().seconds) return;
    findings_.push_back(finding);
    if (options_.better) options_.better(finding, placement, order);
  }
  /// Keeps a result if it is the best.
  void take(const std::string& method, const Placement& placement, const Measurement& measured,
            const OpOrder& order, std::uint64_t evaluations) {
    best_.answer.evaluations += evaluations;
    if (!better(measured, best_.answer.found.measurement)) return;
    best_.answer.found.placement = placement;
    best_.answer.found.measurement = measured;
    best_.answer.method = method;
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
    for (const Found& start : problem_.limits.starts)
      heuristics_.emplace_back(options_.portfolio.start_method, start);
    PortfolioOptions options = options_.portfolio;
    options.searches = false;
    options.stopped = [&] { return stopped() || (!heuristics_.empty() && spent() > kHeuristicsEnd); };
    options.better = [&](const Finding& finding, const Placement& placement) {
      report(finding, placement, {});
    };
    EMPLACE_TRY_ASSIGN(best_.answer, run_portfolio(recording, problem_, judge_, executor_, clock_, options));
    const Measurement& measured = best_.answer.found.measurement;
    if (measured.valid) best_.issue_seconds = measured.step_time_s;
    return Unit{};
  }

  /// Searches for an order of the best placement, on all threads.
  Result<Unit> search_orders(double until) {
    const Placement placement = best_.answer.found.placement;
    if (options_.portfolio.on_method_start) options_.portfolio.on_method_start("order");
    const std::span<const OpOrder> starts{&best_.order, best_.order.empty() ? 0u : 1u};
    std::vector<std::optional<Result<FoundOrder>>> found(options_.portfolio.threads);
    std::atomic<bool> stop_requested = false;
    ++searches_;
    const auto search = [&](unsigned thread) {
      OrderSearchOptions options{.clock = &clock_, .deadline = time_at(until), .starts = starts};
      options.stream = searches_ << 10 | thread;
      options.stopped = [&, thread] {
        if (thread == 0 && stopped()) stop_requested = true;
        return stop_requested.load();
      };
      found[thread] = search_order(problem_, placement, judge_.simulator, options);
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 1; t < found.size(); ++t) threads.emplace_back(search, t);
      search(0);
    }
    for (auto& each : found) {
      if (!each->ok()) return each->error();
      const FoundOrder& one = each->value();
      take("order", placement, one.measurement, one.order, one.evaluations);
    }
    return Unit{};
  }

  Pair best_pair() const {
    const Answer& answer = best_.answer;
    return {answer.method, answer.found.placement, best_.order, answer.found.measurement};
  }

  /// Searches for placements of the graph in the order of the pair, starting from its placement.
  Result<Unit> search_placements(const Pair& pair, double until) {
    const OpOrder order = pair.order.empty() ? issue_order(problem_.graph) : pair.order;
    RenumberedProblem own{problem_, judge_, order};
    Found start{renumbered(pair.placement, order), {}, 1, {}};
    EMPLACE_TRY(own.model().measure(start.placement, start.measurement));
    Problem problem = own.problem();
    problem.limits.starts = {&start, 1};
    PortfolioOptions options = options_.portfolio;
    options.start_method = pair.method;
    options.budget_s = std::chrono::duration<double>(time_at(until) - clock_.now()).count();
    if (options.budget_s <= 0) return Unit{};
    options.better = [&, offset_s = seconds()](const Finding& finding, const Placement& placement) {
      report({finding.method, finding.seconds, finding.at_s + offset_s}, original(placement, order),
             pair.order);
    };
    EMPLACE_TRY_ASSIGN(auto answer, run_portfolio({}, problem, judge_, own.model(), clock_, options));
    const Measurement& measured = answer.found.measurement;
    take(answer.method, original(answer.found.placement, order), measured, pair.order, answer.evaluations);
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
        ++best_.answer.evaluations;
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
  const Clock& clock_;
  const OrderedOptions& options_;
  const Nanos start_;
  OrderedAnswer best_;
  std::vector<Finding> findings_;
  std::vector<std::pair<std::string, Found>>
      heuristics_;              // Results in issue order, also those that do not fit.
  std::uint64_t searches_ = 0;  // Searches for an order so far.
};

}  // namespace

Result<OrderedAnswer> run_ordered_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                                            const Judge& judge, Executor& executor, const Clock& clock,
                                            const OrderedOptions& options) {
  if (judge.objective != Objective::kStepTime)
    return Error{Errc::kUnsupported, "an order needs --objective step-time"};
  if (judge.simulator.dispatch != Dispatch::kProgram)
    return Error{Errc::kUnsupported, "an order needs --dispatch program"};
  return Ordered{problem, judge, executor, clock, options}.run(methods);
}

Result<Found> OrderedPortfolio::find(const Problem& problem, Executor& executor) const {
  OrderedOptions options;
  options.portfolio = options_for(problem);
  EMPLACE_TRY_ASSIGN(auto ordered,
                     run_ordered_portfolio(methods_, problem, judge_, executor, clock_, options));
  ordered.answer.found.evaluations = ordered.answer.evaluations;
  return std::move(ordered.answer.found);
}

}  // namespace emplace
