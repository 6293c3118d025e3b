#pragma once
/// Noise on the command line: which, how many draws, and the spread of a placement's step time under it.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "executor/sim/jitter.h"
#include "graph/order.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/options.h"
#include "solver/request.h"

namespace emplace::launcher {

/// Options --jitter and --draws.
class JitterOptions {
 public:
  /// `help`: what --jitter does for the command.
  void declare(Options& options, const char* help);
  /// Returns what was requested, nothing without --jitter. Errors (kInvalid): neither a share up to 25 % nor
  /// `ties`; draws out of range or without --jitter.
  Result<std::optional<Noise>> request(std::uint64_t seed) const;

 private:
  std::string jitter_, draws_;
};

/// Errors (kInvalid): the judge does not simulate step times by the default model. The error names
/// `option`.
Result<Unit> check_jitter(const std::string& option, const Judge& judge);

/// Steps with noise of a placement whose devices take ready ops in `order` (empty: issue order).
Result<JitteredSteps> jittered_steps(const Inputs& inputs, const Placement& placement, const OpOrder& order,
                                     const Noise& noise);

/// JSON of the spread: share, ties, draws, median_s, p90_s, p95_s, worst_s, over_memory (draws that do not
/// fit). @pre it has draws.
Json jitter_json(const JitteredSteps& steps, const Noise& noise);
/// Line of the spread, without its end; a second one if the placement does not fit in all draws. @pre it has
/// draws.
std::string jitter_text(const JitteredSteps& steps, const Noise& noise, double step_time_s);

}  // namespace emplace::launcher
