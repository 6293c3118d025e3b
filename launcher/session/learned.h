#pragma once
/// A learned placer asked for one placement: `emplace place --method hierarchical`, or by a policy that
/// another run has learned.

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "heuristics/method.h"
#include "launcher/settings/graph_reading.h"

namespace emplace::launcher {

struct LearnRequest {
  std::string method;  ///< One of policy::methods(), or empty: that of `policy`.
  std::filesystem::path graph, devices, rules;
  GraphReading reading = {};
  double reserve = 0;  ///< Share of each device's memory to keep free.
  std::string objective = "step-time", dispatch = "program";
  double budget_s = 0;  ///< 0 with a policy: it places at once, without learning more.
  std::string policy;   ///< Run directory to take the policy from; empty: learn one.
  std::uint64_t samples =
      0;  ///< Episodes that a policy draws beside its likeliest placement to place at once.
  std::uint64_t seed = 1;
  bool quiet = false;
};

struct Learned {
  Found found;
  std::string method;  ///< "placeto", "placeto (zero-shot)"
  int status = 0;      ///< As RunSummary has it.
};

/// Runs the actors of `emplace run` in a folder of its own for the budget, from the best baseline (or from
/// the policy), and takes their best placement; or asks a policy once: its likeliest placement and those of
/// `samples` episodes, all of them measured. A policy that learned from the best baselines of its graphs
/// begins at this one's. What a simulated search began with is the answer where it finds nothing better, and
/// its notes say so. Errors: kInvalid for inputs, method or policy that do not go together; kNoPlacement if
/// nothing fitted; kRunFailed.
Result<Learned> place_by_learning(const LearnRequest& request);

}  // namespace emplace::launcher
