#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"
#include "executor/sim/simulator.h"
#include "executor/timing.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/jitter_options.h"
#include "launcher/placing/results.h"
#include "launcher/placing/torch_options.h"
#include "launcher/terminal/stop_signal.h"
#include "placement/export/trace.h"
#include "placement/schedule.h"

namespace emplace::launcher {
namespace {

class Evaluate final : public Command {
 public:
  explicit Evaluate(Extensions extensions)
      : Command{"evaluate", "Measure one placement",
                "emplace evaluate configs/graphs/nmt-2layer-bs64.json.gz placement.json --devices "
                "configs/devices/quickstart.toml"},
        extensions_{std::move(extensions)} {}
  void declare(Options& options) override {
    declare_inputs(options, inputs_);
    declare_strategy(options, inputs_);
    options.operand("PLACEMENT", placement_, "Placement file");
    options.option("--executor", executor_,
                   "Executor that measures the placement: sim, placeto (Placeto's simulator, without "
                   "memory), cpu, cuda, fake or torch");
    torch_.declare(options);
    options.flag("--verify", verify_,
                 "Real executors: compare the results with those of a run on a single device");
    jitter_.declare(options,
                    "Also simulate steps with this noise on op times, copy times and ties, e.g. 5%, or ties: "
                    "median, 95th percentile and worst (default: none)");
    options
        .option("--trace", trace_,
                "Write a trace of one step to this file (.json or .json.gz) for Perfetto or chrome://tracing "
                "(default: none)")
        .option("--warmups", warmups_, "Real executors: warm-up steps before the timed ones")
        .option("--samples", samples_,
                "Real executors: timed steps; up to three times as many if they spread by more than 5 %")
        .option("--statistic", statistic_, "Real executors: statistic of the timed steps, median or mean")
        .option("--deadline", deadline_, "Real executors: longest time without progress before a restart")
        .option(
            "--chaos", chaos_,
            "Injects failures, for tests: crash-every=N,hang-every=N,oom-every=N,poison-every=N (default: "
            "none)");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  /// A measurement and what is printed with it.
  struct Evaluated {
    Measurement measured;
    std::optional<Verification> verified;
    std::vector<std::string> synthetic_types;
    std::vector<DeviceId> stand_ins;
    std::vector<std::string> notes;  ///< What the executor noted; already printed.
    std::optional<PipelineFacts> pipeline;
    std::optional<StepCosts> costs;  ///< The costs behind the step time, if that is simulated.
    std::optional<JitteredSteps> jittered;
  };
  Result<Evaluated> simulate(const Inputs& inputs, const Placement& placement,
                             const std::optional<Noise>& jitter) const;
  Result<Evaluated> run_really(Console& console, const Inputs& inputs, const Placement& placement,
                               const StopSignal& stop) const;
  Result<ProcessRequest> request() const;
  bool is_simulated() const { return executor_ == "sim" || executor_ == "placeto"; }
  void print(Console& console, const Evaluated& answer, const Inputs& inputs, std::string_view order,
             const std::optional<Noise>& jitter) const;

  const Extensions extensions_;
  InputOptions inputs_;
  TorchOptions torch_;
  JitterOptions jitter_;
  std::string placement_, executor_ = "sim", trace_, statistic_ = "median", deadline_ = "30s", chaos_;
  std::uint64_t warmups_ = 5, samples_ = 5;
  bool verify_ = false;
};

Result<ProcessRequest> Evaluate::request() const {
  constexpr std::uint64_t kMax = 1'000'000;
  if (warmups_ > kMax || samples_ > kMax || samples_ == 0)
    return invalid("--warmups, --samples", "are out of range",
                   "use 0 to 1000000 warm-ups and 1 to 1000000 samples");
  const auto statistic = parse_word<TimingOptions::Statistic>(statistic_);
  if (!statistic) return invalid("--statistic", statistic.error().context);
  const auto deadline = parse_seconds(deadline_);
  if (!deadline || *deadline <= 0)
    return invalid("--deadline " + printable(deadline_, 40), "is not a duration above 0", "use e.g. 30s");
  ProcessRequest request;
  const auto samples = static_cast<std::uint32_t>(samples_);
  request.real.timing = {static_cast<std::uint32_t>(warmups_), samples, 3 * samples, *statistic};
  request.deadline_s = *deadline;
  request.chaos = chaos_;
  EMPLACE_TRY(torch_.fill(request, executor_));
  return request;
}

Result<Evaluate::Evaluated> Evaluate::simulate(const Inputs& inputs, const Placement& placement,
                                               const std::optional<Noise>& jitter) const {
  Evaluated answer;
  if (!trace_.empty()) {
    Inputs traced = inputs;
    Placement placed = placement;
    if (inputs.judge.strategy.pipelined()) EMPLACE_TRY(obey_strategy(traced, placed));
    Schedule schedule;
    Simulator simulator{traced.graph, traced.devices, traced.judge.simulator};
    EMPLACE_TRY(simulator.trace(placed, answer.measured, schedule));
    EMPLACE_TRY(interop::write_trace(trace_, traced.graph, traced.devices, schedule));
  }
  const auto model = make_model(inputs.graph, inputs.devices, inputs.judge);
  EMPLACE_TRY(model->measure(placement, answer.measured));
  answer.costs = costs_of(inputs, placement);
  answer.pipeline = pipeline_facts(inputs, placement, answer.measured);
  if (jitter) {
    EMPLACE_TRY_ASSIGN(answer.jittered, jittered_steps(inputs, placement, {}, *jitter));
  }
  return answer;
}

Result<Evaluate::Evaluated> Evaluate::run_really(Console& console, const Inputs& inputs,
                                                 const Placement& placement, const StopSignal& stop) const {
  EMPLACE_TRY_ASSIGN(auto request, this->request());
  request.interrupted = [&] { return stop.received() != 0; };
  request.note = [&](const std::string& line) { console.note(line); };
  EMPLACE_TRY_ASSIGN(const auto executor, extensions_.start_executor(executor_, inputs.graph, inputs.devices,
                                                                     inputs.judge, request));
  Evaluated answer;
  EMPLACE_TRY(executor->measure(placement, answer.measured));
  answer.synthetic_types = executor->synthetic_types();
  answer.stand_ins = executor->stand_ins();
  answer.notes = executor->notes();
  if (verify_ && answer.measured.valid) {
    EMPLACE_TRY_ASSIGN(answer.verified, executor->verify(placement));
  }
  if (!trace_.empty() && answer.measured.valid) {  // Trace a separate step: tracing would distort timed ones.
    Measurement traced;
    Schedule schedule;
    EMPLACE_TRY(executor->trace(placement, traced, schedule));
    EMPLACE_TRY(interop::write_trace(trace_, inputs.graph, inputs.devices, schedule));
  }
  return answer;
}

void Evaluate::print(Console& console, const Evaluated& answer, const Inputs& inputs, std::string_view order,
                     const std::optional<Noise>& jitter) const {
  if (console.json()) {
    Json json = measured_json(answer.measured, inputs, executor_, answer.stand_ins);
    if (order != "issue") json["order"] = order;
    if (!is_simulated()) json["synthetic_types"] = answer.synthetic_types;
    if (!answer.notes.empty()) json["executor_notes"] = answer.notes;
    if (answer.costs) json["costs"] = costs_json(*answer.costs);
    add_pipeline(json, answer.pipeline);
    if (answer.jittered) json["jitter"] = jitter_json(*answer.jittered, *jitter);
    if (answer.verified) {
      json["verified"] = answer.verified->identical;
      json["compared"] = answer.verified->compared;
      json["skipped"] = answer.verified->skipped;
      if (!answer.verified->first_difference.empty())
        json["first_difference"] = answer.verified->first_difference;
    }
    return console.print(json_text(json));
  }
  std::string text = measured_text(answer.measured, inputs, answer.stand_ins, answer.costs);
  text += pipeline_line(answer.pipeline);
  if (answer.jittered) text += jitter_text(*answer.jittered, *jitter, answer.measured.step_time_s) + "\n";
  if (answer.verified) {
    text += fmt::format("verified   {}: {} tensors compared with a run on one device, {} skipped\n",
                        answer.verified->identical ? "identical" : "different", answer.verified->compared,
                        answer.verified->skipped);
  }
  console.print(text);
  if (!answer.synthetic_types.empty())
    console.note("replaced by synthetic ops: " + printable(joined(answer.synthetic_types), 400));
}

Result<ExitStatus> Evaluate::run(Console& console) {
  const bool real = !is_simulated();
  const bool placeto = executor_ == "placeto";
  if (verify_ && !real)
    return Error{Errc::kUnsupported,
                 "--verify: needs a real executor; use --executor cpu, or remove --verify"};
  if (real) {  // Fail before reading any input if the executor cannot start.
    EMPLACE_TRY_ASSIGN(const auto request, this->request());
    EMPLACE_TRY(extensions_.check_executor(executor_, Judge{}, request));
  } else {
    EMPLACE_TRY(torch_.check_unused(executor_));
  }
  EMPLACE_TRY_ASSIGN(const auto jitter, jitter_.request(console.seed()));
  if (jitter && executor_ != "sim")
    return invalid("--jitter", "needs --executor sim", "noise is drawn for its events only");
  if (!chaos_.empty() && !real) return invalid("--chaos", "needs an executor process", "use --executor fake");
  EMPLACE_TRY_ASSIGN(auto inputs, open_inputs(inputs_));
  report_assumptions(inputs, inputs_.graph, console);
  EMPLACE_TRY(use_placeto(placeto, inputs.judge, console));
  if (jitter) {
    EMPLACE_TRY(check_jitter("--jitter", inputs.judge));
  }
  if (placeto && !trace_.empty())
    return invalid("--trace", "has no schedule of --executor placeto", "use --executor sim");
  if (!trace_.empty() && inputs.judge.objective != Objective::kStepTime)
    return invalid("--trace", "needs --objective step-time", "other objectives have no schedule to trace");
  for (const std::string& line : inputs.rules.lines()) console.note(line);
  EMPLACE_TRY_ASSIGN(auto opened, open_placement(placement_, inputs, console));
  if (real && opened.unplanned)
    return Error{
        Errc::kUnsupported,
        "--executor " + executor_ + ": does not run memory plans; use --executor sim, or apply in Python"};
  if (real && inputs.judge.strategy.pipelined())
    return Error{Errc::kUnsupported, "--executor " + executor_ +
                                         ": runs one micro-batch per step; use --executor sim, or remove "
                                         "--micro-batches"};
  if (jitter && inputs.judge.strategy.pipelined())
    return invalid("--jitter", "knows one micro-batch per step", "remove it, or --micro-batches");
  EMPLACE_TRY_ASSIGN(const auto order, obey_order(placement_, inputs, opened, console));
  const Placement& placement = opened.placement;
  const StopSignal stop;
  const auto answer =
      real ? run_really(console, inputs, placement, stop) : simulate(inputs, placement, jitter);
  if (stop.received() != 0) return stopped_by(stop.received());
  if (!answer) return answer.error();
  print(console, *answer, inputs, order.empty() ? "issue" : "placement file", jitter);
  const Measurement& measured = answer->measured;
  const std::string where = printable(placement_);
  if (!measured.valid && !out_of_memory(measured.valid, measured.failure))
    return Error{Errc::kRunFailed, where + ": did not run: " + misfit(measured, inputs.devices)};
  if (!measured.valid)
    return Error{Errc::kOutOfMemory, where + ": does not fit: " + misfit(measured, inputs.devices)};
  if (answer->verified && !answer->verified->identical)
    return Error{Errc::kRunFailed,
                 where + ": the results on several devices differ from those on one, first in '" +
                     printable(answer->verified->first_difference, 80) + "'"};
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_evaluate(const Extensions& extensions) {
  return std::make_unique<Evaluate>(extensions);
}

}  // namespace emplace::launcher
