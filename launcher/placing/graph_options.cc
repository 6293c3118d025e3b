#include "launcher/placing/graph_options.h"

#include "base/text/words.h"

namespace emplace::launcher {

void declare_reading(Options& options, GraphReading& reading) {
  options.option("--from", reading.from, "Format of the graph file (default: detected from its content)");
  options.option("--shape", reading.shape, "Sizes of named dimensions, e.g. batch=8,seq=512");
  options.option("--batch", reading.batch, "Size of unknown first dimensions; 0: not given");
}

void declare_inputs(Options& options, InputOptions& inputs) {
  options.operand("GRAPH", inputs.graph, "Graph file");
  options.non_empty("--devices,-d", inputs.devices, kDevicesHelp);
  options.option("--rules", inputs.rules,
                 "Rules file: pins, allowed and forbidden devices, co-location by op name, type or scope "
                 "(default: none)");
  options.option("--objective", inputs.objective,
                 "Objective to minimise: step-time, throughput, latency or max-load");
  options.option("--reserve", inputs.reserve, "Memory kept free per device, e.g. 10% or 2GiB (default: 0%)");
  options.option("--dispatch", inputs.dispatch, "Order in which a device runs ready ops: program or fifo");
  declare_reading(options, inputs.reading);
}

void report_assumptions(const OpGraph& graph, const std::string& file, Console& console) {
  for (const std::string& note : graph_notes(graph))
    console.note(printable(file) + ": " + printable(note, 1'000));
}

void report_assumptions(const Inputs& inputs, const std::string& file, Console& console) {
  for (const std::string& note : inputs.machine_notes) console.note(note);
  report_assumptions(inputs.graph, file, console);
}

}  // namespace emplace::launcher
