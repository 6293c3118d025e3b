#pragma once
/// Options that most commands share: the graph and the machine.

#include <string>

#include "launcher/inputs/inputs.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

/// Declares --from, --shape and --batch.
void declare_reading(Options& options, GraphReading& reading);
/// Declares GRAPH, --devices, --rules, --objective, --reserve, --dispatch and the options of
/// declare_reading().
void declare_inputs(Options& options, InputOptions& inputs);

/// Text of --devices in --help.
inline constexpr const char* kDevicesHelp =
    "Machine: a device file, text such as \"h100 x 4, epyc9654\", or here (default: the machine that the "
    "graph "
    "file contains, else here)";

/// Prints one line on standard error per assumption that the graph's reader made.
void report_assumptions(const OpGraph& graph, const std::string& file, Console& console);
/// Prints also those about the machine.
void report_assumptions(const Inputs& inputs, const std::string& file, Console& console);

}  // namespace emplace::launcher
