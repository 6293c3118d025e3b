#include "solver/portfolio/portfolio.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/cores.h"
#include "base/mutex.h"
#include "solver/portfolio/ordered_portfolio.h"
#include "solver/search/anneal.h"
#include "solver/search/local_search.h"
#include "solver/search/tree_moves.h"

namespace emplace {
namespace {

/// State shared by all threads.
class Shared {
 public:
  explicit Shared(const Context& context) : context_{context}, start_{context.clock->now()} {}

  double seconds() const { return std::chrono::duration<double>(context_.clock->now() - start_).count(); }
  Nanos start_time() const { return start_; }

  /// Reports a better placement of a search that continues.
  void report(const std::string& method, const Placement& placement, double seconds) {
    const MutexLock lock{mutex_};
    if (!findings_.empty() && seconds >= findings_.back().seconds) return;
    findings_.push_back({method, seconds, this->seconds()});
    if (reaches_bound(seconds, context_.bound_s)) optimal_ = true;
    if (context_.better) context_.better(findings_.back(), placement, {});
  }
  /// Adds the final result of a method.
  void take(const std::string& method, Answer found) {
    if (found.measurement.valid) report(method, found.placement, found.measurement.step_time_s);
    const MutexLock lock{mutex_};
    evaluations_ += found.evaluations;
    if (best_ && !better(found.measurement, best_->measurement)) return;
    best_ = std::move(found);
    best_->method = method;
  }
  void fail(Error error) {
    const MutexLock lock{mutex_};
    if (!error_) error_ = std::move(error);
  }
  std::optional<Answer> best() const {
    const MutexLock lock{mutex_};
    return best_;
  }
  /// True once a placement reaches the bound. Searches poll it.
  bool optimal() const { return optimal_; }
  Result<Answer> finish(const std::string& why) && {
    const MutexLock lock{mutex_};
    if (error_) return *error_;
    if (!best_) return Error{Errc::kNoPlacement, why};
    Answer answer = *std::move(best_);
    answer.evaluations = evaluations_;
    answer.findings = std::move(findings_);
    return answer;
  }

 private:
  const Context& context_;
  const Nanos start_;
  std::atomic<bool> optimal_ = false;
  mutable Mutex mutex_;
  std::optional<Answer> best_ EMPLACE_GUARDED_BY(mutex_);
  std::uint64_t evaluations_ EMPLACE_GUARDED_BY(mutex_) = 0;
  std::vector<Finding> findings_ EMPLACE_GUARDED_BY(mutex_);
  std::optional<Error> error_ EMPLACE_GUARDED_BY(mutex_);
};

/// Sorts methods by value for their time, so that a second suffices for a good answer. Split objectives have
/// few ops and cheap evaluations: there the exact and chain methods come first.
std::vector<const Method*> in_order(std::vector<const Method*> methods, Objective objective) {
  static constexpr std::array<std::string_view, 15> kSteps{
      "single-gpu", "single-cpu", "expert", "scotch",     "pretrained", "m-etf",       "metis", "heft",
      "mincut",     "mincut-cpu", "m-topo", "contiguous", "m-sct",      "round-robin", "random"};
  const auto rank = [&](const Method* method) {
    if (objective != Objective::kStepTime && method->name() == "contiguous") return std::ptrdiff_t{-1};
    return std::find(kSteps.begin(), kSteps.end(), method->name()) - kSteps.begin();
  };
  std::stable_sort(methods.begin(), methods.end(),
                   [&](const Method* a, const Method* b) { return rank(a) < rank(b); });
  return methods;
}

/// The heuristic after which the weights are annealed: it and those before it are fast, and others can take
/// all of their half of the budget on a large graph.
constexpr std::string_view kBeforeWeights = "m-etf";

/// One search of a thread, and its share of the remaining budget.
struct Turn {
  bool local;
  double until;  // Share of the search time at which it ends.
  double heat = 1;
  bool restarts = false;  // From the simple methods, not from the best placement so far.
};

/// With as many evaluations, an annealing walk has the time to leave its start and to settle elsewhere.
constexpr double kEvaluationsOfHotWalk = 60'000;
constexpr double kSecondsPerSize = 20e-9;  // Time of an evaluation per op and edge.
constexpr double kHotWalk = 3;
/// With time for as many hot walks, a thread also searches from another start.
constexpr double kWalksOfRestart = 2;

/// Sequence of searches of a thread in `budget_s`. Split objectives have few units and cheap evaluations:
/// latencies are searched by rebuilding windows, loads by annealing. Step times are annealed from coarse to
/// fine; the last search starts from the best result. The heuristics' best placement may be far from better
/// ones, so where there is time for it the first search is hot, and where there is more, the second one
/// restarts.
std::vector<Turn> turns_for(const Problem& problem, double budget_s) {
  if (problem.objective == Objective::kLatency) return {{true, 0.75}, {false, 0.85}, {true, 1}};
  if (problem.objective != Objective::kStepTime) return {{false, 0.8}, {true, 1}};
  const auto size = static_cast<double>(problem.graph.num_ops() + problem.graph.num_edges());
  const double walks = budget_s / (kEvaluationsOfHotWalk * kSecondsPerSize * size);
  if (walks > kWalksOfRestart)
    return {{.local = false, .until = 0.35, .heat = kHotWalk},
            {.local = false, .until = 0.7, .restarts = true},
            {.local = false, .until = 1}};
  return walks > 1 ? std::vector<Turn>{{false, 0.6, kHotWalk}, {false, 1}}
                   : std::vector<Turn>{{false, 0.6}, {false, 1, 0.5}};
}

/// The searches of one thread.
struct Searcher {
  const Problem& problem;
  Shared& shared;
  Executor& executor;
  const Clock& clock;
  std::function<bool()> stopped;
  std::function<void(const std::string&, bool)> on_method_start;

  /// Runs `method` until `until` from `start`, or without one from the simple methods, and takes what it
  /// finds.
  Result<Unit> search(const std::optional<Answer>& start, const Method& method, Nanos until) {
    const std::string name{method.name()};
    if (on_method_start) on_method_start(name, true);
    Problem own = problem;
    own.context = {.clock = &clock, .deadline = until, .stopped = stopped};
    if (start) own.context.starts = {&*start, 1};
    own.context.better = [&](const Finding& finding, const Placement& placement, const OpOrder&) {
      shared.report(name, placement, finding.seconds);
    };
    EMPLACE_TRY_ASSIGN(auto found, method.find(own, executor));
    // Evaluations of the start were counted where they were made.
    if (start) found.evaluations -= start->evaluations;
    shared.take(name, std::move(found));
    return Unit{};
  }

  void run(unsigned thread, Nanos end, const MoveProposerFactory& moves) {
    const Nanos begin = clock.now();
    std::uint64_t stream = std::uint64_t{thread} << 20;
    const auto left = std::chrono::duration<double>(end - begin).count();
    for (const Turn& turn : turns_for(problem, left)) {
      stream += 1 << 10;
      const Nanos until = begin + as_nanos(left * turn.until);
      if (clock.now() >= until || (stopped && stopped())) continue;
      const LocalSearch local{{.stream = stream, .moves = moves}};
      // The first thread continues from the walk over weights, unless it restarts; others repeat it with
      // random numbers of their own.
      const bool own_walk = turn.restarts || (thread > 0 && turn.until < 1);
      const Anneal anneal{{.heat = turn.heat,
                           .weights = own_walk ? WeightWalk::kFirst : WeightWalk::kNone,
                           .stream = stream,
                           .moves = moves}};
      const Method& method = turn.local ? static_cast<const Method&>(local) : anneal;
      const auto searched = search(turn.restarts ? std::nullopt : shared.best(), method, until);
      if (!searched) return shared.fail(searched.error());
    }
  }
};

}  // namespace

Result<Answer> run_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                             const Judge& judge, Executor& executor) {
  const Context& context = problem.context;
  const Clock& clock = *context.clock;
  Shared shared{context};
  const Nanos end = context.deadline;
  const double budget_s = std::max(0.0, std::chrono::duration<double>(end - shared.start_time()).count());
  std::atomic<bool> stop_requested = false;
  const auto stopped = [&] {
    if (context.stopped && context.stopped()) stop_requested = true;
    return stop_requested || shared.optimal();
  };
  // With a short budget, starting the searches finds more than the remaining slow heuristics.
  const auto late = [&] { return context.searches && shared.seconds() > budget_s / 2; };
  std::optional<MoveProposerFactory> prepared;
  const auto moves = [&]() -> const MoveProposerFactory& {
    if (!prepared) prepared = context.moves ? context.moves(problem) : MoveProposerFactory{};
    if (!*prepared) prepared = tree_moves(problem);
    return *prepared;
  };
  Searcher here{problem, shared, executor, clock, stopped, context.on_method_start};
  std::string why = "no methods given";
  for (const Answer& start : context.starts)
    shared.take(start.method.empty() ? "start placement" : start.method, start);
  for (const Method* method : in_order(methods, problem.objective)) {
    // A split that fits may need the heuristics that follow memory.
    const auto best = shared.best();
    if (stopped() ||
        (late() && best && (best->measurement.valid || problem.objective == Objective::kStepTime)))
      break;
    const std::string name{method->name()};
    if (context.on_method_start) context.on_method_start(name, false);
    Problem own = problem;
    own.context = {.stopped = [&] { return stopped() || late(); }};
    auto found = method->find(own, executor);
    if (!found && stopped()) break;
    if (!found && found.error().code != Errc::kNoPlacement) return found.error();
    if (found) {
      shared.take(name, *std::move(found));
    } else {
      why = name + ": " + found.error().context;
    }
    if (name == kBeforeWeights && context.searches && problem.objective == Objective::kStepTime &&
        shared.best() && !stopped() && !late()) {
      const Anneal anneal{{.weights = WeightWalk::kOnly, .moves = moves()}};
      EMPLACE_TRY(here.search(shared.best(), anneal, clock.now() + as_nanos(budget_s * kWeightsShare)));
    }
  }
  if (!context.searches || !shared.best() || clock.now() >= end || stopped())
    return std::move(shared).finish(why);

  std::vector<std::unique_ptr<Executor>> executors;
  std::vector<std::jthread> threads;
  const MoveProposerFactory& proposers = moves();
  for (unsigned t = 1; t < context.threads; ++t) {
    executors.push_back(make_model(problem.graph, problem.devices, judge));
    threads.emplace_back([&, t, own = executors.back().get()] {
      const auto stop_elsewhere = [&] { return stop_requested || shared.optimal(); };
      Searcher{problem, shared, *own, clock, stop_elsewhere, {}}.run(t, end, proposers);
    });
  }
  here.run(0, end, proposers);
  threads.clear();
  return std::move(shared).finish(why);
}

Result<Answer> Portfolio::find(const Problem& problem, Executor& executor) const {
  Problem own = problem;
  own.context = {.clock = &clock_,
                 .deadline = clock_.now() + as_nanos(budget_s_),
                 .threads = usable_cores(),
                 .starts = problem.context.starts,
                 .moves = moves_,
                 .stopped = problem.context.stopped};
  return (ordered_ ? run_ordered_portfolio : run_portfolio)(methods_, own, judge_, executor);
}

}  // namespace emplace
