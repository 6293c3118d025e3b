#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/text/words.h"
#include "launcher/placing/answer_output.h"
#include "launcher/placing/best_on_disk.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/jitter_options.h"
#include "launcher/placing/placement_output.h"
#include "launcher/placing/remedies.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/progress_view.h"
#include "launcher/terminal/setting_options.h"
#include "launcher/terminal/stop_signal.h"
#include "solver/methods.h"
#include "solver/solve.h"

namespace emplace::launcher {
namespace {

/// The longest time in which remedies are tried.
constexpr double kRemediesBudget_s = 10;

class Place final : public Command {
 public:
  explicit Place(Extensions extensions)
      : Command{"place", "Find a placement for one graph",
                "emplace place configs/graphs/nmt-2layer-bs64.json.gz --devices "
                "configs/devices/quickstart.toml --budget 3s --order search -o placement.json"},
        extensions_{std::move(extensions)} {}
  void declare(Options& options) override {
    declare_inputs(options, inputs_);
    declare_strategy(options, inputs_);
    options.flag("--strategy", request_.strategies,
                 "Search for the number of replicas as well; without --micro-batches, four for each device");
    settings_.declare(options, "method", "allow", "m");
    options.option("--executor", output_.executor,
                   "Model that evaluates placements: sim, or placeto (Placeto's simulator, without memory)");
    settings_.declare(options, "best-of", "robust");
    jitter_.declare(
        options,
        "Also simulate steps of the answer with this noise on op times, copy times and ties, e.g. "
        "5%, or ties (default: none)");
    settings_.declare(options, "threads", "threads");
    options.option("-o,--output", output_.path,
                   "Placement file to write; it holds the best placement so far while a search runs");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  /// Completes the request by what has no setting, and checks it before any file is read.
  Result<Unit> prepare(const LearnedMethods& learned, std::uint64_t seed);
  Result<Answer> find(const Inputs& inputs, WatchedExecutor& executor, const ProvenBound& bound,
                      const LearnedMethods& learned, const Clock& clock, Console& console) const;
  /// The error of a heuristic or a search that found no placement, with the graph.
  Error located(const Error& error, const LearnedMethods& learned) const;
  /// Reports that nothing fits, then what would make it fit, unless --allow or the kind of the search
  /// excludes that.
  Result<ExitStatus> without_placement(const Error& error, const Inputs& inputs,
                                       const LearnedMethods& learned, const Clock& clock,
                                       const StopSignal& stop, Console& console) const;
  Result<ExitStatus> print(const Inputs& inputs, Executor& executor, const Answer& answer,
                           const ProvenBound& bound, double wall_s, Console& console) const;

  const Extensions extensions_;
  InputOptions inputs_;
  Request request_;
  SettingOptions settings_{request_};
  JitterOptions jitter_;
  PlacementOutput output_;
};

Result<Unit> Place::prepare(const LearnedMethods& learned, std::uint64_t seed) {
  const bool known = request_.method == "auto" || request_.method == "pretrained";
  if (!known && !learned.learns(request_.method)) {
    EMPLACE_TRY(find_method(request_.method));
  }
  EMPLACE_TRY(settings_.apply());
  request_.seed = output_.seed = seed;
  if (request_.strategies && inputs_.micro_batches == "1") inputs_.micro_batches = "auto";
  EMPLACE_TRY_ASSIGN(request_.judge, inputs_.judge());
  request_.judge.placeto = output_.executor == "placeto";
  EMPLACE_TRY(check(request_, learned));
  EMPLACE_TRY_ASSIGN(request_.noise, jitter_.request(seed));
  EMPLACE_TRY(check_step_model(output_.executor));
  if (request_.robust && !request_.noise) request_.noise = Noise{.jitter = {.seed = seed}};
  return Unit{};
}

Result<Answer> Place::find(const Inputs& inputs, WatchedExecutor& executor, const ProvenBound& bound,
                           const LearnedMethods& learned, const Clock& clock, Console& console) const {
  const auto writer = make_model(inputs.graph, inputs.devices, inputs.judge);
  Simulator in_order{inputs.graph, inputs.devices, inputs.judge.simulator};
  BestOnDisk best{clock, [&](const std::string& method, const Placement& placement, const OpOrder& order) {
                    Answer so_far{.placement = placement, .method = method, .order = order};
                    if (!order.empty() && !in_order.set_order(order)) return;
                    Executor& model = order.empty() ? *writer : in_order;
                    if (!model.measure(placement, so_far.measurement)) return;
                    const auto saved = output_.save(inputs, so_far, clock);
                    if (!saved) console.warn(saved.error().context);
                  }};
  const Context context{.clock = &clock,
                        .bound_s = bound.seconds,
                        .stopped =
                            [&] {
                              best.write_if_due();
                              return executor.stopped();
                            },
                        .on_method_start =
                            [&](const std::string& method, bool polls) {
                              executor.start(method, polls);
                              console.debug(method + " starts");
                            },
                        .better =
                            [&](const Finding& finding, const Placement& placement, const OpOrder& order) {
                              // What other methods of auto find, the executor measures.
                              if (request_.method != "auto" || request_.allowed() != Allowed{})
                                executor.record_value(finding.seconds);
                              if (!output_.path.empty()) best.update(finding.method, placement, order);
                            }};
  return solve(request_, executor, context, learned);
}

Error Place::located(const Error& error, const LearnedMethods& learned) const {
  const bool own = request_.method != "auto" && !request_.by_policy() && !learned.learns(request_.method);
  if (error.code != Errc::kNoPlacement || !own) return error;
  return Error{error.code, printable(inputs_.graph) + ": " + error.context};
}

Result<ExitStatus> Place::without_placement(const Error& error, const Inputs& inputs,
                                            const LearnedMethods& learned, const Clock& clock,
                                            const StopSignal& stop, Console& console) const {
  if (!request_.allow.empty() || request_.method != "auto" || !request_.policy.empty() ||
      !has_steps(inputs.judge) || inputs.judge.strategy.pipelined())
    return error;
  // The proof appears at once; trying takes time.
  console.error(error.context);
  if (!console.shows_progress() && !console.json())
    return ExitStatus::kNoPlacement;  // They would not be seen.
  Request asked = request_;
  asked.order = Ordering::kIssue;
  asked.robust = false;
  asked.best_of = 1;
  const double budget_s = std::min(request_.budget_or(kRemediesBudget_s), kRemediesBudget_s);
  EMPLACE_TRY_ASSIGN(const auto remedies, try_remedies(inputs_, inputs, asked, learned, clock, budget_s,
                                                       [&] { return stop.received() != 0; }));
  if (stop.received() != 0) return stopped_by(stop.received());
  for (const std::string& line : remedies_lines(remedies)) console.note(line);
  if (console.json()) console.print(json_text(Json{{"remedies", remedies_json(remedies)}}));
  return ExitStatus::kNoPlacement;
}

Result<ExitStatus> Place::run(Console& console) {
  const auto learned = extensions_.learning(inputs_, !console.shows_progress());
  EMPLACE_TRY(prepare(*learned, console.seed()));
  const std::string noise = request_.robust ? "--robust" : request_.noise ? "--jitter" : "";
  EMPLACE_TRY_ASSIGN(auto inputs, open_problem(inputs_, request_.judge.placeto, noise, console));
  EMPLACE_TRY(output_.check_writable());
  const SystemClock clock;
  const StopSignal stop;
  if (auto may_fit = check_memory(inputs_, inputs, request_.allowed().recompute); !may_fit)
    return without_placement(may_fit.error(), inputs, *learned, clock, stop, console);
  request_.graph = &inputs.graph;
  request_.machine = &inputs.devices;
  request_.constraints = &inputs.constraints;
  request_.judge = inputs.judge;
  request_.known_to_fit = true;
  auto model = make_model(inputs.graph, inputs.devices, inputs.judge);
  ProgressView view{console, clock};
  const ProvenBound bound =
      bound_of(inputs.judge, inputs.graph, inputs.devices, inputs.constraints, request_.allowed());
  const double shown_s = request_.budget_or(request_.method == "auto" ? kDefaultBudget_s : 0);
  WatchedExecutor executor{*model, view, stop, shown_s, bound.seconds};
  const Nanos start = clock.now();
  auto answer = find(inputs, executor, bound, *learned, clock, console);
  const double wall_s = std::chrono::duration<double>(clock.now() - start).count();
  view.clear();
  if (!answer) {
    if (stop.received() != 0) return stopped_by(stop.received());
    return located(answer.error(), *learned);
  }
  if (answer->strategy && *answer->strategy != inputs.judge.strategy) {
    inputs.judge.strategy = *answer->strategy;
    model = make_model(inputs.graph, inputs.devices, inputs.judge);
  }
  if (answer->status == 0 && stop.received() != 0)
    answer->status = static_cast<int>(stopped_by(stop.received()));
  if (!answer->measurement.valid) {
    const Error error{Errc::kNoPlacement,
                      printable(inputs_.graph) + ": no feasible placement was found; the closest is " +
                          answer->method + "'s, where " + misfit(answer->measurement, inputs.devices)};
    if (answer->status != 0) return error;
    return without_placement(error, inputs, *learned, clock, stop, console);
  }
  if (!output_.path.empty()) {
    EMPLACE_TRY(output_.save(inputs, *answer, clock));
    for (std::size_t k = 0; k < answer->others.size(); ++k) {
      EMPLACE_TRY(output_.save(inputs, answer->others[k], clock, k + 2));
    }
  }
  auto shown = print(inputs, *model, *answer, bound, wall_s, console);
  if (!shown || answer->status == 0) return shown;
  return static_cast<ExitStatus>(answer->status);
}

Result<ExitStatus> Place::print(const Inputs& inputs, Executor& executor, const Answer& answer,
                                const ProvenBound& bound, double wall_s, Console& console) const {
  EMPLACE_TRY_ASSIGN(const auto single, best_single_device(inputs, executor));
  const std::string slower = slower_than_single(answer.measurement.step_time_s, single, inputs.devices);
  AnswerFacts facts{.inputs = inputs,
                    .request = request_,
                    .bound = bound,
                    .executor = std::string{executor.kind()},
                    .output = output_,
                    .wall_s = wall_s,
                    .slower_than_single = !slower.empty()};
  std::optional<Inputs> with_plan;
  Placement placement = answer.placement;
  if (!answer.plan.empty()) EMPLACE_TRY(obey_plan(answer.plan, with_plan.emplace(inputs), placement));
  const Inputs& measured = with_plan ? *with_plan : inputs;
  facts.costs = costs_of(measured, placement);
  facts.pipeline = pipeline_facts(inputs, answer.placement, answer.measurement);
  if (request_.noise) {
    EMPLACE_TRY_ASSIGN(facts.steps, jittered_steps(measured, placement, answer.order, *request_.noise));
  }
  if (!answer.fastest.empty()) {
    EMPLACE_TRY_ASSIGN(facts.fastest_steps,
                       jittered_steps(inputs, answer.fastest.front().placement, {}, *request_.noise));
  }
  console.print(console.json() ? json_text(answer_json(answer, facts)) : answer_text(answer, facts));
  if (!slower.empty()) console.warn("this placement is " + slower);
  if (output_.path.empty()) console.note("placement not written to a file; add -o placement.json");
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_place(const Extensions& extensions) {
  return std::make_unique<Place>(extensions);
}

}  // namespace emplace::launcher
