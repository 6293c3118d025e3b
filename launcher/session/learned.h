#pragma once
/// One placement by a learned method (`emplace place --method hierarchical`) or by the policy of another run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "heuristics/method.h"
#include "launcher/settings/graph_reading.h"

namespace emplace::launcher {

struct LearnRequest {
  std::string method;  ///< One of policy::methods(); empty: the method of `policy`.
  std::filesystem::path graph, rules;
  std::string devices;  ///< Names a machine as --devices does.
  GraphReading reading = {};
  Reserve reserve;  ///< Memory of each device to keep free.
  std::string objective = "step-time", dispatch = "program";
  std::string executor;  ///< "sim" or "placeto"; empty: that of the policy's run, or sim.
  double budget_s = 0;   ///< Learning time [s]; 0 with a policy: no learning.
  std::string policy;    ///< Run directory of the policy to use; empty: learn one.
  /// Random order of the groups, policy::unseen_order(), in which the policy finds its likeliest placement;
  /// empty: its own.
  std::optional<std::uint64_t> unseen_order;
  std::uint64_t samples = 0;  ///< Without learning: episodes to draw besides the most likely placement.
  std::uint64_t seed = 1;
  bool quiet = false;
};

struct Learned {
  Found found;
  std::string method;  ///< "placeto", "placeto (zero-shot)", "placeto (sampled)"
  int status = 0;      ///< See RunSummary::status.
};

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
