#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "graph/memory_plan.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/jitter_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/progress_view.h"
#include "launcher/terminal/setting_options.h"
#include "placement/allowed.h"
#include "placement/machine/cost_model.h"
#include "placement/table.h"
#include "solver/memory/planned_methods.h"
#include "solver/methods.h"
#include "solver/pipeline/pipeline_search.h"
#include "solver/pipeline/stage_split.h"
#include "solver/pipeline/strategy_search.h"
#include "solver/portfolio/portfolio.h"
#include "solver/solve.h"

namespace emplace::launcher {
namespace {

class Compare final : public Command {
 public:
  explicit Compare(Extensions extensions)
      : Command{"compare", "Compare methods: step time, memory, traffic, gap to the lower bound",
                "emplace compare configs/graphs/nmt-2layer-bs64.json.gz --devices "
                "configs/devices/quickstart.toml --methods expert,scotch,heft"},
        extensions_{std::move(extensions)} {}
  void declare(Options& options) override {
    declare_inputs(options, inputs_);
    declare_strategy(options, inputs_);
    options.option(
        "--methods,-m", methods_,
        "Methods, separated by commas: heuristics, searches, auto, auto+order (with a search for the order "
        "of ops), pretrained and methods that learn (default: all heuristics; with --budget also the "
        "searches and auto)");
    options.option("--budget", budget_,
                   "Time for each search, auto and each method that learns (default 30s)");
    options.option("--evaluations", evaluations_,
                   "Placements that each search measures at most; 0: the default of the method");
    options.option("--executor", executor_,
                   "Model that evaluates placements: sim, or placeto (Placeto's simulator, without memory)");
    options.option(
        "--allow", allow_,
        "What may be decided besides the devices, as place --allow: recompute, offload. Placements "
        "that do not fit get decisions, auto searches for both, and block-checkpoints (every block "
        "runs again) is a row of its own (default: none)");
    jitter_.declare(options,
                    "Also simulate steps of each placement with this noise on op times, copy times and ties, "
                    "e.g. 5%, or ties: a column with the 95th percentile (default: none)");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Json as_json(const Inputs& inputs, double bound_s, const std::vector<TableRow>& rows) const;
  static std::string verdict(const std::vector<TableRow>& rows);
  /// Runs the methods one after the other, until a signal arrives.
  Result<std::vector<TableRow>> run_methods(std::span<const Method* const> methods,
                                            const LearnedMethods& learned, const Request& request,
                                            const Inputs& inputs, Executor& model, double bound_s,
                                            const Clock& clock, const StopSignal& stop,
                                            Console& console) const;
  void print(const Inputs& inputs, double bound_s, const std::vector<TableRow>& rows, Console& console) const;

  const Extensions extensions_;
  InputOptions inputs_;
  JitterOptions jitter_;
  std::string budget_, allow_, executor_ = "sim";
  std::vector<std::string> methods_;
  std::uint64_t evaluations_ = 0;
};

/// A method that learns, as a row among heuristics: its find() runs the actors of `emplace run` for the
/// budget and ignores the problem's context. A signal that ends such a run is handed to `stop`.
/// @pre `learned` and `stop` outlive it.
class LearnedMethod final : public Method {
 public:
  LearnedMethod(const LearnedMethods& learned, Request request, StopSignal& stop)
      : learned_{learned}, request_{std::move(request)}, stop_{stop} {}
  std::string_view name() const override { return request_.method; }
  std::string_view summary() const override { return "learns for the budget"; }
  Result<Answer> find(const Problem&, Executor&) const override {
    auto answer = learned_.learn(request_, request_.budget.seconds);
    // While it ran, the run's own handlers were in place, which end with it.
    stop_.take_over(answer && answer->status > 128 ? answer->status - 128 : 0);
    return answer;
  }

 private:
  const LearnedMethods& learned_;
  const Request request_;
  StopSignal& stop_;
};

/// The methods of a comparison, in order.
class ComparedMethods {
 public:
  /// `judge`: filled in before the first method runs. All of them outlive it. The budget of the request is
  /// that of each method.
  ComparedMethods(const LearnedMethods& learned, const Request& request, const Judge& judge,
                  const Allowed& allowed, const Clock& clock, StopSignal& stop)
      : learned_{learned},
        request_{request},
        judge_{judge},
        allowed_{allowed},
        stop_{stop},
        portfolio_{learned.portfolio_methods(), learned.moves(), judge, clock, request.budget.seconds},
        ordered_{learned.portfolio_methods(), learned.moves(), judge, clock,
                 request.budget.seconds,      /*ordered=*/true},
        planned_{learned.portfolio_methods(), learned.moves(), judge, allowed, clock, request.budget.seconds},
        blocks_{heuristics(), judge},
        stages_{judge.strategy},
        copies_{judge.strategy},
        pipelines_{learned.portfolio_methods(), learned.moves(), judge, clock, request.budget.seconds} {}

  /// Errors: kInvalid for an unknown name, or an objective or a model that a method does not have.
  Result<Unit> add(const std::string& name) {
    EMPLACE_TRY_ASSIGN(const Method* method, find(name));
    const bool step_time = request_.judge.objective == Objective::kStepTime;
    if ((method->transforms_graph() || method == &ordered_) && !step_time)
      return invalid("method '" + name + "'", "supports only --objective step-time", "remove --objective");
    if (pipelined() && ((method->transforms_graph() && method != &copies_) || method == &ordered_ ||
                        name == "pretrained" || learned_.learns(name)))
      return invalid("method '" + name + "'", "knows one micro-batch per step", "remove --micro-batches");
    methods_.push_back(with_decisions(method));
    return Unit{};
  }
  /// Adds all heuristics, and with a budget also what uses one.
  void add_all(bool budget) {
    const auto add = [&](std::span<const Method* const> some) {
      for (const Method* method : some) methods_.push_back(with_decisions(method));
    };
    if (pipelined()) methods_.insert(methods_.end(), {&stages_, &copies_});
    add(all_methods());
    if (request_.judge.objective == Objective::kStepTime && !pipelined()) add(transforming_methods());
    if (allowed_.recompute) methods_.push_back(&blocks_);
    if (!budget) return;
    add(search_methods());
    methods_.push_back(pipelined() ? &pipelines_ : with_decisions(&portfolio_));
  }
  std::span<const Method* const> all() const { return methods_; }
  bool searches_order() const {
    return std::find(methods_.begin(), methods_.end(), &ordered_) != methods_.end();
  }

 private:
  bool pipelined() const { return request_.judge.strategy.pipelined(); }
  static std::vector<const Method*> heuristics() {
    const auto all = all_methods();
    return {all.begin(), all.end()};
  }
  /// The method, with decisions about memory if they are allowed and it makes none itself.
  const Method* with_decisions(const Method* method) {
    if (!allowed_.memory() || method == &blocks_ || learned_.learns(method->name())) return method;
    if (method == &portfolio_) return &planned_;
    return owned_.emplace_back(std::make_unique<WithDecisions>(*method, judge_, allowed_)).get();
  }
  Result<const Method*> find(const std::string& name) {
    if (name == portfolio_.name() && pipelined()) return &pipelines_;
    if (name == portfolio_.name()) return &portfolio_;
    if (name == stages_.name() && pipelined()) return &stages_;
    if (name == copies_.name() && pipelined()) return &copies_;
    if (name == blocks_.name() && allowed_.recompute) return &blocks_;
    if (name == ordered_.name()) return &ordered_;
    if (name == "pretrained") {
      EMPLACE_TRY_ASSIGN(auto pretrained, learned_.pretrained("", 0));
      return owned_.emplace_back(std::move(pretrained)).get();
    }
    if (!learned_.learns(name)) return find_compared_method(name);
    Request own = request_;
    own.method = name;
    return owned_.emplace_back(std::make_unique<LearnedMethod>(learned_, std::move(own), stop_)).get();
  }

  const LearnedMethods& learned_;
  const Request request_;
  const Judge& judge_;
  const Allowed allowed_;
  StopSignal& stop_;
  const Portfolio portfolio_, ordered_;
  const PlannedPortfolio planned_;
  const BlockCheckpoints blocks_;
  const StageSplit stages_;
  const DataParallel copies_;
  const PipelinePortfolio pipelines_;
  std::vector<std::unique_ptr<Method>> owned_;
  std::vector<const Method*> methods_;
};

const TableRow* fastest(const std::vector<TableRow>& rows) {
  const TableRow* best = nullptr;
  for (const TableRow& row : rows) {
    if (!row.found || !row.measurement.valid || row.transforms_graph) continue;
    if (best == nullptr || row.measurement.step_time_s < best->measurement.step_time_s) best = &row;
  }
  return best;
}

/// Fills in the costs of all rows, and the errors of their differences to the fastest one.
void add_costs(std::vector<TableRow>& rows, const Inputs& inputs) {
  if (inputs.judge.objective != Objective::kStepTime) return;
  const TableRow* const best = fastest(rows);
  PlacementCosts costs{inputs.graph, inputs.devices};
  for (TableRow& row : rows) {
    if (row.placement.empty() || !row.found || !row.measurement.valid ||
        row.measurement.label != MeasurementLabel::kSimulated)
      continue;
    row.costs = costs.of(row.placement);
    if (best != nullptr && !best->placement.empty())
      row.difference_error = costs.difference_error(best->placement, row.placement);
  }
}

/// Whether a row is slower than the best one by more than the error of the costs in which they differ.
bool differs(const TableRow& row, const TableRow& best) {
  return row.measurement.step_time_s > best.measurement.step_time_s * (1 + row.difference_error);
}

/// Returns one method's row; kNoPlacement of the method becomes a note in it. Errors: all others.
/// `noise` (null: none) simulates the noisy steps of its placement, unless that is in an order of its own.
Result<TableRow> run_method(const Method& method, const Problem& problem, Executor& executor,
                            const Clock& clock, JitteredSimulator* noise, std::uint32_t draws) {
  TableRow row{.method = std::string{method.name()}};
  const Nanos start = clock.now();
  auto found = method.find(problem, executor);
  row.wall_s = std::chrono::duration<double>(clock.now() - start).count();
  if (!found) {
    if (found.error().code != Errc::kNoPlacement) return found.error();
    row.note = found.error().context;
    return row;
  }
  row.found = true;
  row.measurement = std::move(found->measurement);
  row.evaluations = found->evaluations;
  row.transforms_graph = method.transforms_graph();
  row.placement = std::move(found->placement);
  row.recomputed = found->plan.recompute.size();
  row.moved_tensors = found->plan.moved.size();
  const bool original = found->plan.empty() && method.name() != "auto+order";
  if (noise != nullptr && row.measurement.valid && !row.placement.empty() && original) {
    EMPLACE_TRY_ASSIGN(const auto steps, noise->measure_draws(row.placement, draws));
    row.p95_s = steps.quantile(0.95);
  }
  row.note = row.measurement.valid ? joined(found->notes) : misfit(row.measurement, problem.devices);
  return row;
}

Json Compare::as_json(const Inputs& inputs, double bound_s, const std::vector<TableRow>& rows) const {
  auto methods = Json::array();
  for (const TableRow& row : rows) {
    auto method = Json::object();
    const bool valid = row.found && row.measurement.valid;
    method["method"] = row.method;
    method["valid"] = valid;
    method["step_time_s"] = valid ? row.measurement.step_time_s : kJsonNull;
    if (!valid || !row.note.empty()) method[valid ? "note" : "reason"] = row.note;
    if (row.transforms_graph) method["transforms_graph"] = true;
    if (valid) method["objective_value"] = inputs.in_file_unit(row.measurement.step_time_s);
    if (row.p95_s > 0) method["p95_s"] = row.p95_s;
    if (row.recomputed + row.moved_tensors > 0)
      method["memory_plan"] = Json{{"recomputed_ops", row.recomputed}, {"moved_tensors", row.moved_tensors}};
    if (row.costs) {
      method["costs"] = costs_json(*row.costs);
      method["difference_error"] = row.difference_error;
      method["differs_from_best"] = differs(row, *fastest(rows));
    }
    method["peak_memory_bytes"] = row.measurement.peak_bytes;
    method["bytes_moved"] = row.measurement.bytes_moved;
    method["evaluations"] = row.evaluations;
    method["wall_s"] = row.wall_s;
    methods.push_back(std::move(method));
  }
  Json json{{"graph", inputs.graph.name()},
            {"devices", inputs.devices.names()},
            {"objective", word_of(inputs.judge.objective)},
            {"lower_bound_s", bound_s},
            {"methods", methods}};
  add_assumptions(json, inputs.graph);
  return json;
}

std::string Compare::verdict(const std::vector<TableRow>& rows) {
  std::string notes;
  for (const TableRow& row : rows)
    if (row.found && row.measurement.valid && !row.note.empty()) notes += row.method + ": " + row.note + "\n";
  const TableRow* best = fastest(rows);
  if (best == nullptr) return "no method found a feasible placement\n";
  std::vector<std::string> equal;
  for (const TableRow& row : rows)
    if (&row != best && row.costs && row.costs->version != CostVersion::k1 && !differs(row, *best))
      equal.push_back(row.method);
  return notes + "best: " + best->method + ", " + step_text(best->measurement.step_time_s, best->costs) +
         "\n" +
         (equal.empty() ? ""
                        : "not distinguishable from it, by the error of the costs: " + joined(equal) + "\n");
}

Result<ExitStatus> Compare::run(Console& console) {
  Request request{.seed = console.seed(), .budget = {kDefaultBudget_s}, .allow = allow_};
  if (!budget_.empty()) {
    EMPLACE_TRY_ASSIGN(request.budget.seconds, parse_budget(budget_));
  }
  EMPLACE_TRY_ASSIGN(request.noise, jitter_.request(console.seed()));
  EMPLACE_TRY(check_step_model(executor_));
  EMPLACE_TRY_ASSIGN(request.judge, inputs_.judge());
  request.judge.placeto = executor_ == "placeto";
  const SystemClock clock;
  StopSignal stop;
  Judge judge;
  EMPLACE_TRY_ASSIGN(const Allowed allowed, parse_allowed(allow_));
  if (allowed.order)
    return invalid("--allow " + printable(allow_, 40), "has no order here",
                   "use recompute and offload, and the method auto+order");
  if (inputs_.replicas != 1)
    return invalid("--replicas", "is no option of a comparison", "see its row data-parallel");
  if (request.judge.strategy.pipelined() && (allowed.memory() || request.noise))
    return invalid("--micro-batches " + inputs_.micro_batches, "is not compared with memory plans or noise",
                   "remove --allow and --jitter");
  const auto learned = extensions_.learning(inputs_, !console.shows_progress());
  ComparedMethods methods{*learned, request, judge, allowed, clock, stop};
  for (const std::string& name : methods_) EMPLACE_TRY(methods.add(name));
  if (methods_.empty()) methods.add_all(!budget_.empty());
  if (request.judge.placeto && methods.searches_order())
    return invalid("method 'auto+order'", "needs --executor sim",
                   "Placeto's simulator has an order of its own");
  EMPLACE_TRY_ASSIGN(const auto inputs,
                     open_problem(inputs_, request.judge.placeto, request.noise ? "--jitter" : "", console));
  if (allowed.memory()) {
    if (!has_steps(inputs.judge))
      return invalid("--allow " + printable(allow_, 40), "needs steps in program order",
                     "use --objective step-time, --dispatch program and no --executor placeto");
    EMPLACE_TRY(check_plannable(inputs.graph));
  }
  EMPLACE_TRY(check_memory(inputs_, inputs, allowed.recompute));
  judge = inputs.judge;
  const auto model = make_model(inputs.graph, inputs.devices, judge);
  const double bound_s = bound_of(judge, inputs.graph, inputs.devices, inputs.constraints, allowed).seconds;
  EMPLACE_TRY_ASSIGN(auto rows, run_methods(methods.all(), *learned, request, inputs, *model, bound_s, clock,
                                            stop, console));
  add_costs(rows, inputs);
  print(inputs, bound_s, rows, console);
  if (stop.received() != 0) return stopped_by(stop.received());
  const TableRow* best = fastest(rows);
  if (best == nullptr)
    return Error{Errc::kNoPlacement,
                 printable(inputs_.graph) + ": no method found a feasible placement; add memory or devices"};
  EMPLACE_TRY_ASSIGN(const auto single, best_single_device(inputs, *model));
  if (const std::string slower = slower_than_single(best->measurement.step_time_s, single, inputs.devices);
      !slower.empty()) {
    console.warn("the best of these methods is " + slower);
  }
  return ExitStatus::kDone;
}

Result<std::vector<TableRow>> Compare::run_methods(std::span<const Method* const> methods,
                                                   const LearnedMethods& learned, const Request& request,
                                                   const Inputs& inputs, Executor& model, double bound_s,
                                                   const Clock& clock, const StopSignal& stop,
                                                   Console& console) const {
  std::optional<JitteredSimulator> noise;
  if (request.noise)
    noise.emplace(inputs.graph, inputs.devices, inputs.judge.simulator.dispatch, request.noise->jitter);
  ProgressView view{console, clock};
  WatchedExecutor executor{model, view, stop, 0, bound_s};
  const CostTable costs{inputs.graph, inputs.devices};
  Problem problem{inputs.graph, inputs.devices, inputs.constraints,
                  costs,        request.seed,   inputs.judge.objective};
  problem.context.evaluations = evaluations_;
  problem.context.stopped = [&] { return executor.stopped(); };
  std::vector<TableRow> rows;
  for (const Method* method : methods) {
    executor.start(fmt::format("{} ({} of {})", method->name(), rows.size() + 1, methods.size()));
    console.debug(std::string{method->name()} + " starts");
    if (!budget_.empty() && request.budget.seconds > 0) {
      problem.context.clock = &clock;
      problem.context.deadline = clock.now() + as_nanos(request.budget.seconds);
    }
    if (learned.learns(method->name())) view.clear();  // A run shows its own progress.
    auto row = run_method(*method, problem, executor, clock, noise ? &*noise : nullptr,
                          request.noise ? request.noise->draws : 0);
    if (stop.received() != 0) break;  // Show the finished rows, not the interrupted one.
    if (!row) return row.error();
    rows.push_back(std::move(*row));
  }
  view.clear();
  return rows;
}

void Compare::print(const Inputs& inputs, double bound_s, const std::vector<TableRow>& rows,
                    Console& console) const {
  if (console.json()) return console.print(json_text(as_json(inputs, bound_s, rows)));
  const Objective objective = inputs.judge.objective;
  const std::string what{objective == Objective::kStepTime ? "step time" : word_of(objective)};
  console.print(printable(inputs.graph.name()) + " on " + printable(inputs.machine) + "\n" +
                render_table(rows, bound_s, inputs.devices.names(), what) + verdict(rows));
}

}  // namespace

std::unique_ptr<Command> make_compare(const Extensions& extensions) {
  return std::make_unique<Compare>(extensions);
}

}  // namespace emplace::launcher
