#pragma once
/// Options that most commands share: the graph, the machine, and how long to search.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/console.h"
#include "launcher/options.h"
#include "launcher/settings/inputs.h"

namespace emplace::launcher {

/// Declares --from, --shape and --batch.
void declare_reading(Options& options, GraphReading& reading);
/// Declares GRAPH, --devices, --rules, --objective, --reserve and --dispatch, and those of declare_reading().
void declare_inputs(Options& options, InputOptions& inputs);

/// One line each on standard error: what the graph's reader had to assume.
void say_assumed(const OpGraph& graph, const std::string& file, Console& console);

/// "60s". Errors (kInvalid): no time, or more than three years.
Result<double> parse_budget(const std::string& text);

/// A whole number from `low` to `high`. Errors: kInvalid, naming the option.
Result<std::uint32_t> parse_whole(std::string_view option, const std::string& text, std::uint32_t low,
                                  std::uint32_t high);

}  // namespace emplace::launcher
