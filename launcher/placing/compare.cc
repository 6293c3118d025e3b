#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/jitter_options.h"
#include "launcher/placing/results.h"
#include "launcher/placing/step_model.h"
#include "launcher/terminal/progress_view.h"
#include "placement/machine/cost_model.h"
#include "placement/table.h"
#include "solver/portfolio/ordered_portfolio.h"
#include "solver/portfolio/portfolio.h"

namespace emplace::launcher {
namespace {

class Compare final : public Command {
 public:
  explicit Compare(const Extensions& extensions) : extensions_{extensions} {}
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Compare methods: step time, memory, traffic, gap to the lower bound";
  }
  std::string_view example() const override {
    return "emplace compare configs/graphs/nmt-2layer-bs64.json.gz --devices configs/devices/quickstart.toml "
           "--methods expert,scotch,heft";
  }
  void declare(Options& options) override {
    declare_inputs(options, inputs_);
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
    jitter_.declare(options,
                    "Also simulate steps of each placement with this noise on op times, copy times and ties, "
                    "e.g. 5%, or ties: a column with the 95th percentile (default: none)");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Json as_json(const Inputs& inputs, double bound_s, const std::vector<TableRow>& rows) const;
  static std::string verdict(const std::vector<TableRow>& rows);

  const Extensions& extensions_;
  InputOptions inputs_;
  JitterOptions jitter_;
  std::string budget_, executor_ = "sim";
  std::vector<std::string> methods_;
  std::uint64_t evaluations_ = 0;
};

/// A method that learns, as a row among heuristics: its find() runs the actors of `emplace run` for the
/// request's budget and ignores the problem's limits. A signal that ends such a run is handed to `stop`.
/// @pre `learning` and `stop` outlive it.
class LearnedMethod final : public Method {
 public:
  LearnedMethod(const Learning& learning, LearnRequest request, StopSignal& stop)
      : learning_{learning}, request_{std::move(request)}, stop_{stop} {}
  std::string_view name() const override { return request_.method; }
  std::string_view summary() const override { return "learns for the budget"; }
  Result<Found> find(const Problem&, Executor&) const override {
    auto learned = learning_.place(request_);
    // While it ran, the run's own handlers were in place, which end with it.
    stop_.take_over(learned && learned->status > 128 ? learned->status - 128 : 0);
    if (!learned) return learned.error();
    return std::move(learned->found);
  }

 private:
  const Learning& learning_;
  const LearnRequest request_;
  StopSignal& stop_;
};

/// Returns the methods to compare. `owned` keeps those that are made for this comparison.
/// Errors: kInvalid for an unknown name, or an objective that a method does not have.
Result<std::vector<const Method*>> methods_of(const std::vector<std::string>& names, bool budget,
                                              bool step_time, const Method& portfolio, const Method& ordered,
                                              const Learning& learning, const LearnRequest& request,
                                              StopSignal& stop, std::vector<std::unique_ptr<Method>>& owned) {
  std::vector<const Method*> methods;
  for (const std::string& name : names) {
    if (name == "pretrained") {
      EMPLACE_TRY_ASSIGN(auto pretrained, learning.pretrained("", 0));
      methods.push_back(owned.emplace_back(std::move(pretrained)).get());
      continue;
    }
    if (learning.is_learned(name)) {
      LearnRequest own = request;
      own.method = name;
      methods.push_back(
          owned.emplace_back(std::make_unique<LearnedMethod>(learning, std::move(own), stop)).get());
      continue;
    }
    const Method* own = name == portfolio.name() ? &portfolio : name == ordered.name() ? &ordered : nullptr;
    EMPLACE_TRY_ASSIGN(const auto method,
                       own != nullptr ? Result<const Method*>{own} : find_compared_method(name));
    if ((method->transforms_graph() || method == &ordered) && !step_time)
      return invalid("method '" + name + "'", "supports only --objective step-time", "remove --objective");
    methods.push_back(method);
  }
  if (!names.empty()) return methods;
  const auto all = all_methods(), searches = search_methods();
  methods.assign(all.begin(), all.end());
  if (step_time) methods.insert(methods.end(), transforming_methods().begin(), transforming_methods().end());
  if (budget) {
    methods.insert(methods.end(), searches.begin(), searches.end());
    methods.push_back(&portfolio);
  }
  return methods;
}

const TableRow* fastest(const std::vector<TableRow>& rows) {
  const TableRow* best = nullptr;
  for (const TableRow& row : rows) {
    if (!row.found || !row.measurement.valid || row.transforms_graph) continue;
    if (best == nullptr || row.measurement.step_time_s < best->measurement.step_time_s) best = &row;
  }
  return best;
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
  if (noise != nullptr && row.measurement.valid && !found->placement.empty() &&
      method.name() != "auto+order") {
    EMPLACE_TRY_ASSIGN(const auto steps, noise->measure_draws(found->placement, draws));
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
    if (valid) {
      method["step_time_s"] = row.measurement.step_time_s;
    } else {
      method["step_time_s"] = nullptr;
      method["reason"] = row.note;
    }
    if (valid && !row.note.empty()) method["note"] = row.note;
    if (row.transforms_graph) method["transforms_graph"] = true;
    if (valid) method["objective_value"] = inputs.in_file_unit(row.measurement.step_time_s);
    if (row.p95_s > 0) method["p95_s"] = row.p95_s;
    method["peak_memory_bytes"] = row.measurement.peak_bytes;
    method["bytes_moved"] = row.measurement.bytes_moved;
    method["evaluations"] = row.evaluations;
    method["wall_s"] = row.wall_s;
    methods.push_back(std::move(method));
  }
  Json json{{"graph", inputs.graph.name()},
            {"devices", device_names(inputs.devices)},
            {"objective", word_of(inputs.judge.objective)},
            {"lower_bound_s", bound_s},
            {"methods", methods}};
  return json;
}

std::string Compare::verdict(const std::vector<TableRow>& rows) {
  std::string notes;
  for (const TableRow& row : rows)
    if (row.found && row.measurement.valid && !row.note.empty()) notes += row.method + ": " + row.note + "\n";
  const TableRow* best = fastest(rows);
  if (best == nullptr) return "no method found a feasible placement\n";
  return notes + "best: " + best->method + ", " + format_seconds(best->measurement.step_time_s) + "\n";
}

Result<ExitStatus> Compare::run(Console& console) {
  double seconds = 0;
  if (!budget_.empty()) {
    EMPLACE_TRY_ASSIGN(seconds, parse_budget(budget_));
  }
  EMPLACE_TRY_ASSIGN(const auto jitter, jitter_.request(console.seed()));
  EMPLACE_TRY(check_step_model(executor_));
  const bool placeto = executor_ == "placeto";
  const bool step_time = inputs_.objective == "step-time";
  const SystemClock clock;
  Judge judge;
  const double budget_s = budget_.empty() ? kDefaultBudget_s : seconds;
  const Learning& learning = extensions_.learning;
  const Portfolio portfolio{learning.portfolio_methods(), learning.moves(), judge, clock, budget_s};
  const OrderedPortfolio ordered{learning.portfolio_methods(), learning.moves(), judge, clock, budget_s};
  EMPLACE_TRY_ASSIGN(LearnRequest request, learn_request(inputs_, console));
  request.budget_s = budget_s;
  if (placeto) request.executor = executor_;
  StopSignal stop;
  std::vector<std::unique_ptr<Method>> owned;
  EMPLACE_TRY_ASSIGN(const auto methods, methods_of(methods_, !budget_.empty(), step_time, portfolio, ordered,
                                                    learning, request, stop, owned));
  if (placeto && std::find(methods.begin(), methods.end(), &ordered) != methods.end())
    return invalid("method 'auto+order'", "needs --executor sim",
                   "Placeto's simulator has an order of its own");
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(inputs_));
  EMPLACE_TRY(use_placeto(placeto, inputs.judge, console));
  report_assumptions(inputs, inputs_.graph, console);
  judge = inputs.judge;
  std::optional<JitteredSimulator> noise;
  if (jitter) {
    EMPLACE_TRY(check_jitter("--jitter", judge));
    noise.emplace(inputs.graph, inputs.devices, judge.simulator.dispatch, jitter->jitter);
  }
  for (const std::string& line : inputs.rules.lines()) console.note(line);
  if (auto fits = must_fit(inputs); !placeto && !fits)
    return Error{fits.error().code, printable(inputs_.graph) + ": " + fits.error().context};

  const auto model = make_model(inputs.graph, inputs.devices, judge);
  const CostTable costs{inputs.graph, inputs.devices};
  ProgressView view{console, clock};
  const double bound_s = bound_of(judge, inputs.graph, inputs.devices, inputs.constraints).seconds;
  WatchedExecutor executor{*model, view, stop, 0, bound_s};
  Problem problem{inputs.graph, inputs.devices, inputs.constraints, costs, console.seed(), judge.objective};
  problem.limits.evaluations = evaluations_;
  problem.limits.stopped = [&] { return executor.stopped(); };
  std::vector<TableRow> rows;
  for (const Method* method : methods) {
    executor.start(fmt::format("{} ({} of {})", method->name(), rows.size() + 1, methods.size()));
    console.debug(std::string{method->name()} + " starts");
    if (seconds > 0) {
      problem.limits.clock = &clock;
      problem.limits.deadline =
          clock.now() + std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
    }
    if (learning.is_learned(method->name())) view.clear();  // A run shows its own progress.
    auto row =
        run_method(*method, problem, executor, clock, noise ? &*noise : nullptr, jitter ? jitter->draws : 0);
    if (stop.received() != 0) break;  // Show the finished rows, not the interrupted one.
    if (!row) return row.error();
    rows.push_back(std::move(*row));
  }
  view.clear();

  if (console.json()) {
    console.print(json_text(as_json(inputs, bound_s, rows)));
  } else {
    const Objective objective = inputs.judge.objective;
    const std::string what{objective == Objective::kStepTime ? "step time" : word_of(objective)};
    console.print(printable(inputs.graph.name()) + " on " + printable(inputs.machine) + "\n" +
                  render_table(rows, bound_s, device_names(inputs.devices), what) + verdict(rows));
  }
  if (stop.received() != 0) return stopped_by(stop.received());
  const TableRow* best = fastest(rows);
  if (best == nullptr)
    return Error{Errc::kNoPlacement,
                 printable(inputs_.graph) + ": no method found a feasible placement; add memory or devices"};
  EMPLACE_TRY_ASSIGN(const auto single, best_single_device(problem, *model));
  if (const std::string slower = slower_than_single(best->measurement.step_time_s, single, inputs.devices);
      !slower.empty()) {
    console.warn("the best of these methods is " + slower);
  }
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_compare(const Extensions& extensions) {
  return std::make_unique<Compare>(extensions);
}

}  // namespace emplace::launcher
