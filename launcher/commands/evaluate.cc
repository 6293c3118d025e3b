#include <string>

#include "base/text/words.h"
#include "executor/simulator.h"
#include "graph/graph_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/results.h"
#include "launcher/inputs.h"
#include "placement/placement_file.h"
#include "placement/schedule.h"
#include "record/trace.h"

namespace emplace::launcher {
namespace {

class Evaluate final : public Command {
 public:
  std::string_view name() const override { return "evaluate"; }
  std::string_view summary() const override { return "Measures one placement"; }
  void declare(Options& options) override {
    inputs_.declare(options);
    options.operand("PLACEMENT", placement_, "Placement file");
    options.option("--executor", executor_, "What measures it: sim");
    options.flag("--verify", verify_,
                 "Compares a run on several devices with one on a single device (real executors)");
    options.option("--trace", trace_,
                   "Writes when everything happened, for Perfetto or chrome://tracing: .json or .json.gz");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  InputOptions inputs_;
  std::string placement_, executor_ = "sim", trace_;
  bool verify_ = false;
};

Result<ExitStatus> Evaluate::run(Console& console) {
  if (executor_ != "sim") {
    return Error{Errc::kUnsupported,
                 "--executor '" + printable(executor_, 40) + "': is not in this build; use sim"};
  }
  if (verify_)
    return Error{Errc::kUnsupported,
                 "--verify: compares what real executors compute, and this build has none; leave it away"};
  const auto inputs = open_inputs(inputs_);
  if (!inputs) return inputs.error();
  if (!trace_.empty() && inputs->judge.objective != Objective::kStepTime)
    return invalid("--trace", "needs --objective step-time",
                   "loads and latencies of splits have no schedule");
  for (const std::string& line : inputs->rules.lines()) console.note(line);
  const auto placement =
      load_placement(placement_, inputs->graph, graph_sha256(inputs->graph), inputs->devices);
  if (!placement) return placement.error();
  if (auto obeyed = inputs->constraints.check(inputs->graph, inputs->devices, *placement); !obeyed) {
    return invalid(printable(placement_), obeyed.error().context);
  }

  Measurement measured;
  if (!trace_.empty()) {
    Schedule schedule;
    Simulator simulator{inputs->graph, inputs->devices, inputs->judge.simulator};
    if (auto done = simulator.trace(*placement, measured, schedule); !done) return done.error();
    const auto written = record::write_trace(trace_, inputs->graph, inputs->devices, schedule);
    if (!written) return written.error();
  }
  const auto executor = make_executor(executor_, inputs->graph, inputs->devices, inputs->judge);
  if (!executor) return executor.error();
  if (auto done = (*executor)->measure(*placement, measured); !done) return done.error();
  console.print(console.json() ? measured_json(measured, *inputs, (*executor)->kind()).text()
                               : measured_text(measured, *inputs));
  if (!measured.valid)
    return Error{Errc::kOutOfMemory,
                 printable(placement_) + ": does not fit: " + misfit(measured, inputs->devices)};
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_evaluate() { return std::make_unique<Evaluate>(); }

}  // namespace emplace::launcher
