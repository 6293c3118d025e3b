#pragma once
/// One placement by a learned method (`emplace place --method hierarchical`) or by the policy of another run.

#include "base/result.h"
#include "launcher/placing/learn_request.h"

namespace emplace::launcher {

/// Places one graph.
///  - With a budget: runs the actors of `emplace run` in a temporary folder, starting from the best heuristic
///  or
///    the policy, and returns their best placement.
///  - Zero-shot: measures the most likely placement of the policy; with `samples`, also those of as many
///  episodes.
/// A policy that learned from the best heuristics of its graphs starts from the best heuristic here too. If a
/// simulated search finds nothing better than its heuristic, the result is the heuristic, with a note.
/// Errors: kInvalid for incompatible inputs, method or policy; kNoPlacement if no placement fits; kRunFailed.
Result<Learned> place_by_learning(const LearnRequest& request);

}  // namespace emplace::launcher
