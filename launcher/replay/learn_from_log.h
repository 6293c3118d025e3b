#pragma once
/// Another policy learned from what a run has measured: nothing is drawn, nothing is measured again.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/replay/logged_run.h"

namespace emplace::launcher {

struct LearnFromLogRequest {
  std::string method;                 ///< One of policy::methods() that learns.
  std::vector<std::string> settings;  ///< KEY=VALUE over the method's tuned numbers.
  std::uint64_t from = 0, to = 0;     ///< Log numbers (episodes.seq), both included; 0: no limit.
  std::uint64_t passes = 1;           ///< Over the log.
  std::filesystem::path directory;    ///< Where the policy is kept; empty: learned-METHOD in the run's.
  std::function<void(const std::string&)> warn;  ///< Is told of settings that are called otherwise now.
};

struct LearnProgress {
  std::uint64_t pass = 0, passes = 0, seq = 0, last_seq = 0, updates = 0;
};
/// False: end here, and keep nothing.
using LearnWatcher = std::function<bool(const LearnProgress&)>;

struct LearnReport {
  std::string method;
  std::filesystem::path directory;
  std::uint64_t episodes = 0, placements = 0;  ///< In the range,
  std::uint64_t learned = 0;                   ///< and placements that the policy could have drawn itself.
  std::uint64_t refused = 0;                   ///< Those that it could not.
  std::string first_refusal;                   ///< Why the first of them.
  std::uint64_t passes = 0, updates = 0;
  double mean_weight = 0;      ///< Of min(c, π/q), just before each update.
  double effective_share = 0;  ///< (Σ w)² / (n Σ w²): as if so many of them were the policy's own.
  std::string parameters_sha256;
  double wall_s = 0;
  // The first graph, simulated.
  bool likeliest_valid = false;
  double likeliest_step_time_s = 0;  ///< Of the likeliest placement.
  std::int64_t likeliest_bytes_over = 0;
  double log_best_s = 0, log_mean_s = 0;  ///< Of the range's valid placements; 0: none fits.
  bool stopped = false;                   ///< By the watcher.
};

/// Learns by truncated importance weights [IS-2], and keeps the policy as a run's, so that run.policy and
/// `place --policy` take it. Errors (kInvalid), before anything is on disk: a method or settings that cannot
/// learn from a log, a log whose probabilities are not known or of which hardly anything could be drawn by
/// this policy (with the first reason), a directory that holds a run. kRunFailed: the run cannot be made
/// again.
Result<LearnReport> learn_from_log(LoggedRun& run, const LearnFromLogRequest& request, const Clock& clock,
                                   const LearnWatcher& watcher);

}  // namespace emplace::launcher
