#pragma once
/// A warm start: a policy first learns to repeat a given placement, the best that a heuristic found, and
/// explores from there.

#include <cstdint>

#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::policy {

struct ImitationOptions {
  Placement placement;        ///< [ops] of the policy's first graph; empty: nothing is imitated.
  double probability = 0.85;  ///< Enough, as geometric mean over choices.
  float learning_rate = 0.01f;
  std::uint64_t max_steps = 300;
};

/// Ascends log p(placement) by Adam until it is likely enough or the steps are spent. Returns the probability
/// per choice that was reached. Errors: kInvalid if the policy cannot imitate, or not this placement.
Result<double> imitate(Placer& placer, const ImitationOptions& options);

}  // namespace emplace::policy
