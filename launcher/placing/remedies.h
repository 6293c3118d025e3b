#pragma once
/// What would make a graph fit that does not: each remedy tried, with the command that repeats it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/json_text.h"
#include "solver/learned_methods.h"
#include "solver/request.h"

namespace emplace::launcher {

/// A remedy that was tried. A plain value.
struct Remedy {
  std::string what;                      ///< "recompute", "one more h100", "a CPU, epyc9654".
  std::string allow;                     ///< Words of --allow; "none".
  bool fits = false;                     ///< False: no placement was found, or none exists.
  std::string why_not;                   ///< Why, if it does not fit.
  double step_time_s = 0;                ///< Step time of the best placement found [s].
  std::vector<std::int64_t> peak_bytes;  ///< [devices]
  std::string command;                   ///< The command that finds it.
};

/// Tries, one after the other within `budget_s`: an order, recomputation, moves to other devices, both, half
/// of the batch if it was given, one more device of the kind, and a CPU. Those that fit come first, fastest
/// first. Errors: those of solve() other than kNoPlacement.
Result<std::vector<Remedy>> try_remedies(const InputOptions& options, const Inputs& inputs,
                                         const Request& request, const LearnedMethods& learned,
                                         const Clock& clock, double budget_s,
                                         const std::function<bool()>& stopped);

/// The table, a head and one line per remedy; empty without remedies.
std::vector<std::string> remedies_lines(const std::vector<Remedy>& remedies);
/// [{what, allow, fits, step_time_s, peak_memory_bytes, command}]; those without a fit have null and
/// `reason`.
Json remedies_json(const std::vector<Remedy>& remedies);

}  // namespace emplace::launcher
