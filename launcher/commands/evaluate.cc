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
    options.operand("GRAPH", graph_, "Graph file").operand("PLACEMENT", placement_, "Placement file");
    options.required("--devices,-d", devices_, "Device file");
    options.option("--executor", executor_, "What measures it: sim");
    options.option("--trace", trace_,
                   "Writes when everything happened, for Perfetto or chrome://tracing: .json or .json.gz");
    options.option("--reserve", reserve_, "Memory kept free per device, as 10%");
    options.option("--dispatch", dispatch_, "Which ready op a device runs first: program or fifo");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  std::string graph_, placement_, devices_, executor_ = "sim", trace_, reserve_, dispatch_ = "program";
};

Result<ExitStatus> Evaluate::run(Console& console) {
  if (executor_ != "sim") {
    return Error{Errc::kUnsupported,
                 "--executor '" + printable(executor_, 40) + "': is not in this build; use sim"};
  }
  const auto options = simulator_options(dispatch_);
  if (!options) return options.error();
  const auto inputs = open_inputs(graph_, devices_, reserve_);
  if (!inputs) return inputs.error();
  const auto placement =
      load_placement(placement_, inputs->graph, graph_sha256(inputs->graph), inputs->devices);
  if (!placement) return placement.error();
  if (auto obeyed = inputs->constraints.check(inputs->graph, inputs->devices, *placement); !obeyed) {
    return invalid(printable(placement_), obeyed.error().context);
  }

  Simulator simulator{inputs->graph, inputs->devices, *options};
  Measurement measured;
  Schedule schedule;
  if (auto done = simulator.trace(*placement, measured, schedule); !done) return done.error();
  if (!trace_.empty()) {
    const auto written = record::write_trace(trace_, inputs->graph, inputs->devices, schedule);
    if (!written) return written.error();
  }
  console.print(console.json() ? measured_json(measured, inputs->devices, simulator.kind()).text()
                               : measured_text(measured, inputs->devices));
  if (!measured.valid)
    return Error{Errc::kOutOfMemory,
                 printable(placement_) + ": does not fit: " + misfit(measured, inputs->devices)};
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_evaluate() { return std::make_unique<Evaluate>(); }

}  // namespace emplace::launcher
