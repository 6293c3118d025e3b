#pragma once
/// One placement by a learned method (`emplace place --method hierarchical`) or by the policy of another run.

#include "base/result.h"
#include "launcher/inputs/inputs.h"
#include "solver/answer.h"
#include "solver/request.h"

namespace emplace::launcher {

/// Places one graph, of which it reads the files again: a run is made of files. Of the request it uses method
/// (auto: the method of the policy), policy, samples, unseen order, pass, seed, and whether steps are
/// Placeto's.
///  - With a budget: runs the actors of `emplace run` in a temporary folder, starting from the best heuristic
///    or the policy, and returns their best placement.
///  - Zero-shot: measures the most likely placement of the policy; with `samples`, also those of as many
///    episodes; with `pass`, those on the way to it. The seed draws where an episode of initial =
///    "fixed-random" starts.
/// A policy that learned from the best heuristics of its graphs starts from the best heuristic here too. If a
/// simulated search finds nothing better than its heuristic, the result is the heuristic, with a note. The
/// answer's method is "placeto", "placeto (zero-shot)", "placeto (best of the pass)" or "placeto (sampled)",
/// its status RunSummary::status.
/// `quiet`: the run shows no progress. Errors: kInvalid for incompatible inputs, method or policy;
/// kNoPlacement if no placement fits; kRunFailed.
Result<Answer> place_by_learning(const InputOptions& inputs, const Request& request, double budget_s,
                                 bool quiet);

}  // namespace emplace::launcher
