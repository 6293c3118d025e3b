#include <fmt/core.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "graph/formats/graph_file.h"
#include "heuristics/distinct.h"
#include "heuristics/ordered_portfolio.h"
#include "heuristics/portfolio.h"
#include "heuristics/robust.h"
#include "launcher/commands/best_on_disk.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/graph_options.h"
#include "launcher/commands/jitter_options.h"
#include "launcher/commands/learned_method.h"
#include "launcher/commands/pretrained_method.h"
#include "launcher/commands/progress_view.h"
#include "launcher/commands/results.h"
#include "launcher/commands/step_model.h"
#include "launcher/pretrained/guided_moves.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "placement/bounds/proven_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/placement_file.h"

namespace emplace::launcher {
namespace {

constexpr std::uint32_t kMaxOrder = 1'000'000'000;

/// An answer, and the fastest placement that was found if the answer holds under noise instead.
struct Placed : OrderedAnswer {
  std::optional<Found> fastest = {};
  std::vector<Found> others = {};  ///< Further placements that differ from it.
};

class Place final : public Command {
 public:
  std::string_view name() const override { return "place"; }
  std::string_view summary() const override { return "Find a placement for one graph"; }
  std::string_view example() const override {
    return "emplace place configs/graphs/nmt-2layer-bs64.json.gz --devices configs/devices/quickstart.toml "
           "--budget 3s --order search -o placement.json";
  }
  void declare(Options& options) override {
    declare_inputs(options, inputs_);
    options.option(
        "--method,-m", method_,
        "Method: any heuristic or learned method, or auto (all heuristics, then searches from the best)");
    options.option(
        "--budget", budget_,
        "Time for auto, a search or learning, e.g. 60s (default: 30s; one search: a fixed number of "
        "placements; --policy: 0s)");
    options.option(
        "--policy", policy_,
        "Use the policy of this run: zero-shot, or fine-tuned for --budget; with auto and --budget "
        "it gives the first placement");
    options.option(
        "--samples", samples_,
        "Episodes that --policy, or placements that pretrained, samples and measures in addition to "
        "its most likely placement");
    options.non_empty(
        "--weights", weights_,
        "Weights for pretrained: a file by emplace train, or a run of scheduler (default: those in the "
        "program)");
    options.option("--unseen-order", unseen_order_,
                   "Zero-shot by --policy in random order N of the groups, one that no policy is trained in");
    options.option(
        "--order", order_,
        "Order in which devices take ready ops: issue, or search (auto also searches for an order, "
        "and writes it to the placement file)");
    options.option("--executor", executor_,
                   "Model that evaluates placements: sim, or placeto (Placeto's simulator, without memory)");
    options.option(
        "--best-of", best_of_,
        "auto also searches for placements that differ from its answer, N in all, each at most 2 % "
        "slower; written beside the -o file as NAME-2.json and so on (default: 1)");
    options.flag("--robust", robust_,
                 "auto searches for the 90th percentile of the step time under noise (--jitter, default 5%); "
                 "the step time without noise may be 2 % above the best found");
    jitter_.declare(
        options,
        "Also simulate steps of the answer with this noise on op times, copy times and ties, e.g. "
        "5%, or ties (default: none)");
    options.option("--threads", threads_, "Searches that auto runs in parallel; 0: one per core");
    options.option("-o,--output", output_,
                   "Placement file to write; it holds the best placement so far while a search runs");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<ExitStatus> answered(const Inputs& inputs, const Problem& problem, Executor& executor,
                              const Placed& placed, const ProvenBound& bound, double wall_s,
                              const std::optional<JitterRequest>& jitter, Console& console) const;
  Result<Placed> search(const Problem& problem, const Inputs& inputs, WatchedExecutor& executor,
                        double bound_s, const JitterRequest& noise, const Clock& clock,
                        Console& console) const;
  Result<Answer> learn(double default_budget_s, const Console& console) const;
  Result<Unit> save(const std::string& output, const Inputs& inputs, const Placement& placement,
                    const Measurement& measured, const OpOrder& order, const std::string& method,
                    std::uint64_t seed, const Clock& clock) const;
  /// Errors: kInvalid for an unknown word, or another option that an order cannot be combined with.
  Result<Unit> check_order_option() const;
  /// Errors: kInvalid for a number out of range, or another option that it cannot be combined with.
  Result<Unit> check_unseen_order() const;
  bool searches_order() const { return order_ == "search"; }
  /// Path of the k-th placement of --best-of: placement.json, placement-2.json, …
  std::string output_of(std::size_t k) const;
  /// Errors: kInvalid for another option that --robust or --best-of cannot be combined with.
  Result<Unit> check_search_options() const;

  InputOptions inputs_;
  JitterOptions jitter_;
  std::string weights_;
  std::string best_of_ = "1";
  bool robust_ = false;
  std::string method_ = "auto", output_, budget_, policy_, samples_ = "0", unseen_order_, threads_ = "0",
              order_ = "issue", executor_ = "sim";
};

// With --robust: the share of the budget that searches for the fastest placement; the number of its findings
// that the search for a robust one starts from.
constexpr double kFastestShare = 0.6;
constexpr std::size_t kKept = 4;

/// Checks before the search that `output` can be created. Errors: kIo.
Result<Unit> check_writable(const std::string& output) {
  if (output.empty()) return Unit{};
  const std::filesystem::path folder = std::filesystem::absolute(output).parent_path();
  std::error_code error;
  if (std::filesystem::is_directory(folder, error) && !std::filesystem::is_directory(output, error) &&
      ::access(folder.c_str(), W_OK) == 0)
    return Unit{};
  return Error{Errc::kIo, printable(output) +
                              ": cannot be written; name a file in a folder that exists and is writable"};
}

bool is_search(const std::string& method) {
  const auto all = search_methods();
  return std::any_of(all.begin(), all.end(), [&](const Method* each) { return each->name() == method; });
}

Result<double> budget_s(const std::string& budget, double otherwise) {
  return budget.empty() ? Result<double>{otherwise} : parse_budget(budget);
}

Result<Answer> Place::learn(double default_budget_s, const Console& console) const {
  EMPLACE_TRY_ASSIGN(LearnRequest request, learn_request(inputs_, console));
  request.method = method_ == "auto" ? "" : method_;
  if (executor_ == "placeto") request.executor = executor_;
  request.policy = policy_;
  EMPLACE_TRY_ASSIGN(request.samples, parse_whole("--samples", samples_, 0, 100'000));
  if (!unseen_order_.empty()) {
    EMPLACE_TRY_ASSIGN(request.unseen_order, parse_whole("--unseen-order", unseen_order_, 0, kMaxOrder));
  }
  request.budget_s = default_budget_s;
  EMPLACE_TRY_ASSIGN(auto learned, place_by_learning(request));
  const std::uint64_t evaluations = learned.found.evaluations;
  return Answer{std::move(learned.found), std::move(learned.method), evaluations, {}, learned.status};
}

Result<Unit> Place::save(const std::string& output, const Inputs& inputs, const Placement& placement,
                         const Measurement& measured, const OpOrder& order, const std::string& method,
                         std::uint64_t seed, const Clock& clock) const {
  const PlacementInfo info{.graph_sha256 = graph_sha256(inputs.graph),
                           .method = method,
                           .executor = executor_,
                           .seed = seed,
                           .created = format_wall(clock.wall()),
                           .order = order};
  return save_placement(output, inputs.graph, inputs.devices, placement, measured, info);
}

Result<Unit> Place::check_order_option() const {
  if (order_ != "issue" && !searches_order())
    return invalid("--order '" + printable(order_, 40) + "'", "is unknown", "use issue or search");
  if (!searches_order()) return Unit{};
  if (inputs_.objective != "step-time")
    return invalid("--order search", "needs --objective step-time", "no other objective has an order");
  if (inputs_.dispatch != "program")
    return invalid("--order search", "needs --dispatch program", "fifo takes ops in no order of its own");
  if (executor_ == "placeto")
    return invalid("--order search", "needs --executor sim", "Placeto's simulator has an order of its own");
  if (method_ != "auto")
    return invalid("--order search", "needs --method auto", "remove --method " + printable(method_, 40));
  if (!policy_.empty() && budget_.empty())
    return invalid("--order search", "needs a budget beside --policy", "add --budget 30s");
  return Unit{};
}

Result<Unit> Place::check_unseen_order() const {
  if (unseen_order_.empty()) return Unit{};
  EMPLACE_TRY(parse_whole("--unseen-order", unseen_order_, 0, kMaxOrder));
  if (policy_.empty()) return invalid("--unseen-order", "needs a policy", "add --policy RUN");
  if (!budget_.empty() || samples_ != "0")
    return invalid("--unseen-order", "is for zero-shot placements", "remove --budget and --samples");
  return Unit{};
}

Result<Unit> Place::check_search_options() const {
  EMPLACE_TRY_ASSIGN(const auto wanted, parse_whole("--best-of", best_of_, 1, 64));
  if (!robust_ && wanted == 1) return Unit{};
  const std::string option = robust_ ? "--robust" : "--best-of";
  if (robust_ && wanted > 1)
    return invalid("--robust", "searches for one placement", "remove --best-of, or --robust");
  if (inputs_.objective != "step-time")
    return invalid(option, "needs --objective step-time", "it simulates steps");
  if (searches_order())
    return invalid(option, "needs --order issue", "it searches for placements in issue order");
  if (method_ != "auto")
    return invalid(option, "needs --method auto", "remove --method " + printable(method_, 40));
  if (!policy_.empty() && budget_.empty())
    return invalid(option, "needs a budget beside --policy", "add --budget 30s");
  return Unit{};
}

std::string Place::output_of(std::size_t k) const {
  if (k == 1) return output_;
  const std::filesystem::path path{output_};
  const std::string name = path.stem().string() + "-" + std::to_string(k) + path.extension().string();
  return (path.parent_path() / name).string();
}

Result<Placed> Place::search(const Problem& problem, const Inputs& inputs, WatchedExecutor& executor,
                             double bound_s, const JitterRequest& noise, const Clock& clock,
                             Console& console) const {
  EMPLACE_TRY_ASSIGN(const auto seconds, budget_s(budget_, kDefaultBudget_s));
  EMPLACE_TRY_ASSIGN(const auto threads, parse_whole("--threads", threads_, 0, 256));
  PortfolioOptions options;
  options.budget_s = seconds;
  options.moves = guided_moves;
  options.threads = threads == 0 ? usable_cores() : threads;
  options.bound_s = bound_s;
  options.on_method_start = [&](const std::string& method) {
    executor.start(method, is_search(method) || method == "order");
    console.debug(method + " starts");
  };
  const auto writer = make_model(inputs.graph, inputs.devices, inputs.judge);
  Simulator in_order{inputs.graph, inputs.devices, inputs.judge.simulator};
  BestOnDisk best{clock, [&](const std::string& method, const Placement& placement, const OpOrder& order) {
                    Measurement measured;
                    if (!order.empty() && !in_order.set_order(order)) return;
                    Executor& model = order.empty() ? *writer : in_order;
                    if (!model.measure(placement, measured)) return;
                    const auto saved =
                        save(output_, inputs, placement, measured, order, method, console.seed(), clock);
                    if (!saved) console.warn(saved.error().context);
                  }};
  options.stopped = [&] {
    best.write_if_due();
    return executor.stopped();
  };
  options.better = [&](const Finding& finding, const Placement& placement) {
    if (!output_.empty()) best.update(finding.method, placement, {});
  };

  if (method_ == "auto") {
    const std::vector<const Method*> all = portfolio_methods();
    Problem warm = problem;
    std::vector<Found> starts;
    if (!policy_.empty()) {
      EMPLACE_TRY_ASSIGN(auto placed, learn(0, console));
      starts.push_back(std::move(placed.found));
      options.start_method = placed.method;
      warm.limits.starts = starts;
    }
    if (!searches_order()) {
      std::vector<Placement> found;
      const Nanos deadline =
          clock.now() + std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
      EMPLACE_TRY_ASSIGN(const auto wanted, parse_whole("--best-of", best_of_, 1, 64));
      if (robust_ || wanted > 1) options.budget_s = kFastestShare * seconds;
      if (robust_) {
        options.better = [&, show = options.better](const Finding& finding, const Placement& placement) {
          found.push_back(placement);
          if (found.size() > kKept) found.erase(found.begin());
          show(finding, placement);
        };
      }
      EMPLACE_TRY_ASSIGN(auto answer, run_portfolio(all, warm, inputs.judge, executor, clock, options));
      Placed placed{{std::move(answer), {}, {}, 0}};
      if (wanted > 1 && placed.answer.found.measurement.valid) {
        executor.start("best of " + best_of_, true);
        const DistinctOptions distinct{.count = wanted, .deadline = deadline, .stopped = options.stopped};
        EMPLACE_TRY_ASSIGN(auto all_found,
                           search_distinct(problem, inputs.judge, clock, placed.answer.found, distinct));
        for (const Found& each : all_found)
          if (each.placement != placed.answer.found.placement) placed.answer.evaluations += each.evaluations;
        if (all_found.front().placement != placed.answer.found.placement) placed.answer.method = "anneal";
        placed.answer.found = std::move(all_found.front());
        placed.others.assign(std::move_iterator{all_found.begin() + 1}, std::move_iterator{all_found.end()});
        return placed;
      }
      if (!robust_ || !placed.answer.found.measurement.valid) return placed;
      executor.start("robust", true);
      found.push_back(placed.answer.found.placement);
      const RobustOptions robust{.jitter = noise.jitter,
                                 .draws = noise.draws,
                                 .threads = options.threads,
                                 .deadline = deadline,
                                 .stopped = options.stopped};
      EMPLACE_TRY_ASSIGN(auto held, search_robust(problem, inputs.judge, clock, found, robust));
      placed.answer.evaluations += held.found.evaluations;
      placed.fastest = std::move(held.fastest);
      if (held.found.placement != placed.answer.found.placement) placed.answer.method = "robust";
      placed.answer.found = std::move(held.found);
      return placed;
    }
    OrderedOptions ordered;
    ordered.portfolio = options;
    ordered.better = [&](const Finding& finding, const Placement& placement, const OpOrder& order) {
      executor.record_value(finding.seconds);
      if (!output_.empty()) best.update(finding.method, placement, order);
    };
    EMPLACE_TRY_ASSIGN(auto answer, run_ordered_portfolio(all, warm, inputs.judge, executor, clock, ordered));
    return Placed{std::move(answer)};
  }
  std::optional<PretrainedMethod> pretrained;
  if (method_ == "pretrained") {
    EMPLACE_TRY_ASSIGN(pretrained, pretrained_method(weights_, samples_));
  }
  EMPLACE_TRY_ASSIGN(const auto method,
                     pretrained ? Result<const Method*>{pretrained->method.get()} : find_method(method_));
  Problem own = problem;
  own.limits.stopped = options.stopped;
  if (is_search(method_)) {
    if (!budget_.empty()) {
      own.limits.clock = &clock;
      own.limits.deadline =
          clock.now() + std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
    }
    own.limits.better = [&](const Placement& placement, double value) {
      executor.record_value(value);
      options.better(Finding{method_, value, 0}, placement);
    };
  }
  options.on_method_start(method_);
  auto found = method->find(own, executor);
  if (!found) {
    const Error& error = found.error();
    if (error.code != Errc::kNoPlacement) return error;
    return Error{error.code,
                 printable(inputs_.graph) + ": " + method_ + ": " + error.context + "; try another method"};
  }
  const std::uint64_t evaluations = found->evaluations;
  return Placed{{Answer{*std::move(found), method_, evaluations, {}, 0}, {}, {}, 0}};
}

Result<ExitStatus> Place::run(Console& console) {
  const bool learned = is_learned(method_);
  if (!learned && method_ != "auto" && method_ != "pretrained") {
    EMPLACE_TRY(find_method(method_));
  }
  if (!weights_.empty() && method_ != "pretrained")
    return invalid("--weights", "is for --method pretrained", "add it, or remove --weights");
  EMPLACE_TRY_ASSIGN(const auto seconds, budget_s(budget_, 0));
  if (learned && policy_.empty() && !budget_.empty() && seconds <= 0)
    return invalid("--budget", "is 0", method_ + " needs a budget above 0, or --policy");
  EMPLACE_TRY(parse_whole("--samples", samples_, 0, 100'000));
  EMPLACE_TRY(parse_whole("--threads", threads_, 0, 256));
  EMPLACE_TRY(check_order_option());
  EMPLACE_TRY(check_unseen_order());
  EMPLACE_TRY(check_search_options());
  EMPLACE_TRY_ASSIGN(auto jitter, jitter_.request(console.seed()));
  if (robust_ && !jitter) {
    jitter.emplace();
    jitter->jitter.seed = console.seed();
  }
  EMPLACE_TRY(check_step_model(executor_));
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(inputs_));
  const bool placeto = executor_ == "placeto";
  EMPLACE_TRY(use_placeto(placeto, inputs.judge, console));
  if (jitter) {
    EMPLACE_TRY(check_jitter(robust_ ? "--robust" : "--jitter", inputs.judge));
  }
  report_assumptions(inputs, inputs_.graph, console);
  for (const std::string& line : inputs.rules.lines()) console.note(line);
  if (auto fits = must_fit(inputs); !placeto && !fits)
    return Error{fits.error().code, printable(inputs_.graph) + ": " + fits.error().context};
  const CostTable costs{inputs.graph, inputs.devices};
  Problem problem{inputs.graph, inputs.devices, inputs.constraints,
                  costs,        console.seed(), inputs.judge.objective};
  EMPLACE_TRY(check_writable(output_));
  const auto model = make_model(inputs.graph, inputs.devices, inputs.judge);
  const SystemClock clock;
  const StopSignal stop;
  ProgressView view{console, clock};
  const ProvenBound bound = bound_of(inputs.judge, inputs.graph, inputs.devices, inputs.constraints);
  const double shown_s = budget_.empty() && method_ == "auto" ? kDefaultBudget_s : seconds;
  WatchedExecutor executor{*model, view, stop, shown_s, bound.seconds};
  const Nanos start = clock.now();
  // The searches of auto run with --policy only if a budget is given.
  const bool by_policy = !policy_.empty() && (method_ != "auto" || budget_.empty());
  const auto found = [&]() -> Result<Placed> {
    if (!learned && !by_policy)
      return search(problem, inputs, executor, bound.seconds, jitter.value_or(JitterRequest{}), clock,
                    console);
    EMPLACE_TRY_ASSIGN(auto learnt,
                       learn(policy_.empty() && budget_.empty() ? kDefaultBudget_s : seconds, console));
    return Placed{{std::move(learnt), {}, {}, 0}};
  };
  auto ordered = found();
  const double wall_s = std::chrono::duration<double>(clock.now() - start).count();
  view.clear();
  if (!ordered)
    return stop.received() != 0 ? Result<ExitStatus>{stopped_by(stop.received())} : ordered.error();
  Answer& answer = ordered->answer;
  if (answer.status == 0 && stop.received() != 0)
    answer.status = static_cast<int>(stopped_by(stop.received()));
  const Measurement& measured = answer.found.measurement;
  if (!measured.valid) {
    return Error{Errc::kNoPlacement, printable(inputs_.graph) +
                                         ": no feasible placement was found; the closest is " +
                                         answer.method + "'s, where " + misfit(measured, inputs.devices)};
  }
  if (!output_.empty()) {
    EMPLACE_TRY(save(output_, inputs, answer.found.placement, measured, ordered->order, answer.method,
                     console.seed(), clock));
    for (std::size_t k = 0; k < ordered->others.size(); ++k) {
      const Found& other = ordered->others[k];
      EMPLACE_TRY(save(output_of(k + 2), inputs, other.placement, other.measurement, {}, "anneal",
                       console.seed(), clock));
    }
  }
  auto shown = answered(inputs, problem, *model, *ordered, bound, wall_s, jitter, console);
  if (!shown || answer.status == 0) return shown;
  return static_cast<ExitStatus>(answer.status);
}

/// Returns what the order changed: "order      searched; in issue order this placement takes 3 s".
std::string order_line(const OrderedAnswer& ordered, const Inputs& inputs) {
  if (ordered.order.empty()) return "order      issue; no other order was better";
  std::string text = "order      searched; in issue order this placement ";
  text += ordered.issue.valid ? "takes " + format_seconds(ordered.issue.step_time_s)
                              : "does not fit: " + misfit(ordered.issue, inputs.devices);
  return text + (ordered.issue_seconds > 0
                     ? ", and the best one found takes " + format_seconds(ordered.issue_seconds)
                     : ", and none was found that fits");
}

/// Prints the answer.
Result<ExitStatus> Place::answered(const Inputs& inputs, const Problem& problem, Executor& executor,
                                   const Placed& ordered, const ProvenBound& bound, double wall_s,
                                   const std::optional<JitterRequest>& jitter, Console& console) const {
  const Answer& answer = ordered.answer;
  const Measurement& measured = answer.found.measurement;
  const bool optimal = reaches_bound(measured.step_time_s, bound.seconds);
  EMPLACE_TRY_ASSIGN(const auto single, best_single_device(problem, executor));
  std::optional<JitteredSteps> steps, fastest_steps;
  if (jitter) {
    EMPLACE_TRY_ASSIGN(steps, jittered_steps(inputs, answer.found.placement, ordered.order, *jitter));
  }
  if (ordered.fastest) {
    EMPLACE_TRY_ASSIGN(fastest_steps, jittered_steps(inputs, ordered.fastest->placement, {}, *jitter));
  }
  const std::string slower = slower_than_single(measured.step_time_s, single, inputs.devices);
  if (console.json()) {
    Json json{{"measured", measured_json(measured, inputs, executor.kind())}, {"method", answer.method}};
    if (output_.empty()) {
      json["placement"] = nullptr;
    } else {
      json["placement"] = output_;
    }
    json["objective"] = word_of(inputs.judge.objective);
    json["objective_value"] = inputs.in_file_unit(measured.step_time_s);
    json["lower_bound_s"] = bound.seconds;
    json["bound"] = bound.which;
    json["optimal"] = optimal;
    json["evaluations"] = answer.evaluations;
    json["wall_s"] = wall_s;
    json["slower_than_single_device"] = !slower.empty();
    json["order"] = ordered.order.empty() ? "issue" : "search";
    if (searches_order()) {
      Json gain;
      gain["issue_order_best_s"] = ordered.issue_seconds > 0 ? Json(ordered.issue_seconds) : Json(nullptr);
      gain["issue_order_step_time_s"] = ordered.issue.valid ? Json(ordered.issue.step_time_s) : Json(nullptr);
      gain["issue_order_peak_memory_bytes"] = ordered.issue.peak_bytes;
      json["order_gain"] = std::move(gain);
    }
    if (steps) json["jitter"] = jitter_json(*steps, *jitter);
    if (fastest_steps) {
      json["robust"] = Json{{"fastest_step_time_s", ordered.fastest->measurement.step_time_s},
                            {"fastest_jitter", jitter_json(*fastest_steps, *jitter)}};
    }
    if (best_of_ != "1") {
      auto placements = Json::array();
      const auto add = [&](std::size_t k, const Found& found) {
        Json one{{"placement", output_.empty() ? Json(nullptr) : Json(output_of(k))},
                 {"step_time_s", found.measurement.step_time_s}};
        placements.push_back(std::move(one));
      };
      add(1, answer.found);
      for (std::size_t k = 0; k < ordered.others.size(); ++k) add(k + 2, ordered.others[k]);
      json["placements"] = std::move(placements);
    }
    if (!answer.found.notes.empty()) json["note"] = joined(answer.found.notes);
    auto findings = Json::array();
    for (const Finding& finding : answer.findings) {
      Json one{{"method", finding.method}, {"step_time_s", finding.seconds}, {"at_s", finding.at_s}};
      findings.push_back(std::move(one));
    }
    json["findings"] = std::move(findings);
    json["assumed"] = graph_notes(inputs.graph);
    console.print(json_text(json));
  } else {
    std::string text = "method     " + answer.method;
    if (!answer.findings.empty()) text += ", after " + format_seconds(answer.findings.back().at_s);
    if (!answer.found.notes.empty()) text += "\n           " + joined(answer.found.notes);
    text += "\n" + measured_text(measured, inputs) + "bound      ";
    text += bound.seconds > 0 ? format_seconds(bound.seconds) + ", the " + std::string{bound.which}
                              : std::string{"none is proven for this simulator"};
    if (searches_order()) text += "\n" + order_line(ordered, inputs);
    if (steps) text += "\n" + jitter_text(*steps, *jitter, measured.step_time_s);
    if (fastest_steps) {
      const double fastest_s = ordered.fastest->measurement.step_time_s;
      text += fmt::format("\nfastest    {} without noise ({:+.1f} %), 95th percentile {}",
                          format_seconds(fastest_s), 100 * (fastest_s / measured.step_time_s - 1),
                          format_seconds(fastest_steps->quantile(0.95)));
    }
    if (best_of_ != "1") {
      text += fmt::format("\nbest of    {} of {} found", 1 + ordered.others.size(), best_of_);
      for (std::size_t k = 0; k < ordered.others.size(); ++k)
        text += "\n           " + format_seconds(ordered.others[k].measurement.step_time_s) +
                (output_.empty() ? "" : ", " + printable(output_of(k + 2)));
    }
    if (optimal) text += "\noptimal    no placement is better: this one reaches the bound";
    console.print(text + (output_.empty() ? "" : "\nwritten    " + printable(output_)));
  }
  if (!slower.empty()) console.warn("this placement is " + slower);
  if (output_.empty()) console.note("placement not written to a file; add -o placement.json");
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_place() { return std::make_unique<Place>(); }

}  // namespace emplace::launcher
