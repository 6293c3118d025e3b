#pragma once
/// A placement that has to be learned first.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/console.h"
#include "solver/method.h"

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

/// A request with the inputs of a command; method, policy and budget are left to fill in.
/// Errors: kInvalid for a reserve that is not a share.
Result<LearnRequest> learn_request(const InputOptions& inputs, const Console& console);

struct Learned {
  Found found;
  std::string method;  ///< "placeto", "placeto (zero-shot)", "placeto (sampled)"
  int status = 0;      ///< See RunSummary::status.
};

}  // namespace emplace::launcher
