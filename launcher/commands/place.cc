#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/simulator.h"
#include "graph/graph_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/results.h"
#include "launcher/inputs.h"
#include "launcher/run/config.h"
#include "launcher/run/learned.h"
#include "placement/bound.h"
#include "placement/placement_file.h"

namespace emplace::launcher {
namespace {

/// The winner and what it took to find it.
struct Answer {
  Found found;
  std::string method;
  std::uint64_t evaluations = 0;  // Of all methods that were tried.
  int status = 0;                 // 130 or 143 if a signal ended the search.
};

class Place final : public Command {
 public:
  std::string_view name() const override { return "place"; }
  std::string_view summary() const override { return "One graph in, one placement out"; }
  void declare(Options& options) override {
    options.operand("GRAPH", graph_, "Graph file").required("--devices,-d", devices_, "Device file");
    options.option("--method,-m", method_,
                   "A method, learned or not, or auto: the best of those not learned");
    options.option("--budget", budget_, "Time for a method that learns, e.g. 30s");
    options.option("--policy", policy_,
                   "Run directory whose policy places this graph, at once or with --budget");
    options.option("--samples", samples_,
                   "Episodes that --policy draws beside its likeliest placement, all measured; 0: none");
    options.option("-o,--output", output_, "Placement file to write");
    options.option("--reserve", reserve_, "Memory kept free per device, as 10%");
    options.option("--dispatch", dispatch_, "Which ready op a device runs first: program or fifo");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<Answer> answer(const Problem& problem, WatchedExecutor& executor, Console& console) const;
  std::string graph_, devices_, method_ = "auto", output_, reserve_, dispatch_ = "program", budget_, policy_,
                                samples_ = "0";
};

Result<std::vector<const Method*>> methods_of(const std::string& name) {
  const auto all = all_methods();
  if (name == "auto") return std::vector<const Method*>{all.begin(), all.end()};
  const auto method = find_method(name);
  if (!method) return method.error();
  return std::vector<const Method*>{*method};
}

/// Errors: kNoPlacement if no method has anything to say; kRunFailed if `stop` came.
Result<Answer> best_of(const std::vector<const Method*>& methods, const Problem& problem,
                       WatchedExecutor& executor, Console& console) {
  std::optional<Answer> best;
  std::uint64_t evaluations = 0;
  std::string why;
  for (const Method* method : methods) {
    executor.begin(std::string{method->name()});
    console.debug(std::string{method->name()} + " starts");
    auto found = method->find(problem, executor);
    if (!found && found.error().code != Errc::kNoPlacement) return found.error();
    if (!found) {
      why = std::string{method->name()} + ": " + found.error().context;
      continue;
    }
    evaluations += found->evaluations;
    if (!best || better(found->measurement, best->found.measurement))
      best = Answer{std::move(*found), std::string{method->name()}};
  }
  if (!best) return Error{Errc::kNoPlacement, why};
  best->evaluations = evaluations;
  return std::move(*best);
}

/// True for a method that takes a run of its own; "random" is both, and is drawn without one.
bool is_learned(const std::string& method) {
  const auto all = run_methods();
  return method != "random" && std::find(all.begin(), all.end(), method) != all.end();
}

Result<Answer> Place::answer(const Problem& problem, WatchedExecutor& executor, Console& console) const {
  if (policy_.empty() && !is_learned(method_)) {
    const auto methods = methods_of(method_);
    if (!methods) return methods.error();
    return best_of(*methods, problem, executor, console);
  }
  LearnRequest request;
  request.method = method_ == "auto" ? "" : method_;
  request.graph = graph_;
  request.devices = devices_;
  request.dispatch = dispatch_;
  request.policy = policy_;
  request.budget_s = policy_.empty() ? 30 : 0;
  request.seed = console.seed();
  request.quiet = !console.shows_progress();
  const auto samples = parse_whole("--samples", samples_, 0, 100'000);
  if (!samples) return samples.error();
  request.samples = *samples;
  if (!reserve_.empty()) {
    const auto reserve = parse_share(reserve_);
    if (!reserve) return reserve.error();
    request.reserve = *reserve;
  }
  if (!budget_.empty()) {
    const auto seconds = parse_seconds(budget_);
    if (!seconds) return invalid("--budget", seconds.error().context);
    request.budget_s = *seconds;
  }
  auto learned = place_by_learning(request);
  if (!learned) return learned.error();
  const std::uint64_t evaluations = learned->found.evaluations;
  return Answer{std::move(learned->found), std::move(learned->method), evaluations, learned->status};
}

Result<ExitStatus> Place::run(Console& console) {
  if (policy_.empty() && !is_learned(method_)) {
    if (const auto methods = methods_of(method_); !methods) return methods.error();
  }
  const auto options = simulator_options(dispatch_);
  if (!options) return options.error();
  const auto inputs = open_inputs(graph_, devices_, reserve_);
  if (!inputs) return inputs.error();

  Simulator simulator{inputs->graph, inputs->devices, *options};
  const Problem problem{inputs->graph, inputs->devices, inputs->constraints, simulator.costs(),
                        console.seed()};
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  WatchedExecutor executor{simulator, view, stop};
  const Nanos start = clock.now();
  const auto answer = this->answer(problem, executor, console);
  const double wall_s = std::chrono::duration<double>(clock.now() - start).count();
  view.clear();
  if (stop.received() != 0) return stopped_by(stop.received());
  if (!answer) return answer.error();
  if (answer->status != 0) return static_cast<ExitStatus>(answer->status);
  const Measurement& measured = answer->found.measurement;
  if (!measured.valid) {
    return Error{Errc::kNoPlacement, printable(graph_) +
                                         ": no placement that fits was found; the nearest is " +
                                         answer->method + "'s, where " + misfit(measured, inputs->devices)};
  }
  if (!output_.empty()) {
    const PlacementInfo info{.graph_sha256 = graph_sha256(inputs->graph),
                             .method = answer->method,
                             .executor = std::string{simulator.kind()},
                             .seed = console.seed(),
                             .created = format_wall(clock.wall())};
    if (auto saved =
            save_placement(output_, inputs->graph, inputs->devices, answer->found.placement, measured, info);
        !saved)
      return saved.error();
  }

  const double bound_s =
      lower_bound(inputs->graph, inputs->devices, inputs->constraints, simulator.costs()).seconds();
  const auto single = best_single_device(problem, simulator);
  if (!single) return single.error();
  const std::string slower = slower_than_single(measured.step_time_s, *single, inputs->devices);
  if (console.json()) {
    JsonObject json;
    json.add("measured", measured_json(measured, inputs->devices, simulator.kind()))
        .add("method", answer->method);
    if (output_.empty()) {
      json.add_null("placement");
    } else {
      json.add("placement", output_);
    }
    json.add("lower_bound_s", bound_s).add("evaluations", answer->evaluations).add("wall_s", wall_s);
    json.add("slower_than_single_device", !slower.empty());
    console.print(json.text());
  } else {
    console.print("method     " + answer->method + "\n" + measured_text(measured, inputs->devices) +
                  "bound      " + format_seconds(bound_s) +
                  (output_.empty() ? "" : "\nwritten    " + printable(output_)));
  }
  if (!slower.empty()) console.warn("this placement is " + slower);
  if (output_.empty()) console.note("not written to a file; give one with -o placement.json");
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_place() { return std::make_unique<Place>(); }

}  // namespace emplace::launcher
