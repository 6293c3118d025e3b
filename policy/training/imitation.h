#pragma once
/// Warm start: a policy first learns to repeat a given placement, the best of a heuristic, and explores from
/// there.

#include <cstdint>

#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::policy {

struct ImitationOptions {
  Placement placement;        ///< [ops] Placement of the policy's first graph; empty: no imitation.
  double probability = 0.85;  ///< Target probability, as a geometric mean over choices.
  float learning_rate = 0.01f;
  std::uint64_t max_steps = 300;
};

/// Ascends log p(placement) by Adam until the target probability or the maximum number of steps is reached.
/// Returns the probability per choice. Errors: kInvalid if the policy cannot imitate this placement.
Result<double> imitate(Placer& placer, const ImitationOptions& options);

}  // namespace emplace::policy
