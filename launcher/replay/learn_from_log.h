#pragma once
/// Off-policy learning: learns another policy from a run's log, without sampling or measuring.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/replay/recorded_run.h"

namespace emplace::launcher {

struct LearnFromLogRequest {
  std::string method;                 ///< One of policy::methods() that learns.
  std::vector<std::string> settings;  ///< KEY=VALUE; they override the method's tuned settings.
  std::uint64_t from = 0, to = 0;     ///< Range of log numbers (episodes.seq), inclusive; 0: no limit.
  std::uint64_t passes = 1;           ///< Passes over the log.
  std::filesystem::path directory;    ///< Directory of the policy; empty: learned-METHOD in that of the run.
  std::function<void(const std::string&)> warn;  ///< Receives warnings: renamed settings, a saturated policy.
};

struct LearnProgress {
  std::uint64_t pass = 0, passes = 0, seq = 0, last_seq = 0, updates = 0;
};
/// Called after every page. Returns false to stop and discard the policy.
using LearnWatcher = std::function<bool(const LearnProgress&)>;

struct LearnReport {
  std::string method;
  std::filesystem::path directory;
  std::uint64_t episodes = 0, placements = 0;  ///< Episodes and placements in the range.
  std::uint64_t learned = 0;                   ///< Placements that the new policy can represent.
  std::uint64_t refused = 0;                   ///< Placements that it cannot represent.
  std::string first_refusal;                   ///< Reason for the first refused placement.
  std::uint64_t passes = 0, updates = 0;
  double mean_weight = 0;      ///< Mean importance weight min(c, π/q), just before each update.
  double effective_share = 0;  ///< Effective sample size as a share of n: (Σ w)² / (n Σ w²).
  std::string parameters_sha256;
  double wall_s = 0;
  // Results for the first graph, simulated.
  bool likeliest_valid = false;
  double likeliest_step_time_s = 0;  ///< Step time of the most likely placement [s].
  std::int64_t likeliest_bytes_over = 0;
  double log_best_s = 0,
         log_mean_s = 0;  ///< Best and mean of the range's valid placements [s]; 0: none fits.
  bool stopped = false;   ///< Whether the watcher stopped learning.
};

/// Learns with truncated importance weights [IS-2], and writes the policy in the form of a run, for
/// run.policy and `place --policy`. Errors: kInvalid, before anything is written, for a method or settings
/// that cannot learn from a log, a log with unknown probabilities, a log of which this policy can represent
/// hardly anything (with the first reason), or a directory that has a run; kRunFailed if the run cannot be
/// reproduced.
Result<LearnReport> learn_from_log(RecordedRun& run, const LearnFromLogRequest& request, const Clock& clock,
                                   const LearnWatcher& watcher);

}  // namespace emplace::launcher
