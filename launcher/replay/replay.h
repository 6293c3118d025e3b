#pragma once
/// A run's log learned once more: the same parameters, bit for bit, or where they begin to differ.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/replay/logged_run.h"

namespace emplace::launcher {

struct ReplayRequest {
  /// Log numbers (episodes.seq): from the first update that consumed one of these on, to the last that
  /// consumed none after them. 0: no limit.
  std::uint64_t from = 0, to = 0;
};

/// An update that was made again.
struct ReplayedUpdate {
  std::uint64_t update = 0, updates = 0;  ///< This one, of so many.
  std::int64_t wall_ns = 0;               ///< When it was made then; 0: not known.
  double best_step_time_s = 0;            ///< Of what was consumed so far; 0: nothing fitted.
};
/// False: end here.
using ReplayWatcher = std::function<bool(const ReplayedUpdate&)>;

struct ReplayReport {
  std::uint64_t episodes = 0;  ///< Consumed by the updates that were made again.
  std::uint64_t updates = 0, first_update = 0, last_update = 0, checkpoints = 0;
  std::string parameters_sha256;  ///< At the end; empty: nothing was learned.
  bool identical = true;          ///< Every hash of parameters, and every advantage from its measurements.
  std::optional<std::uint64_t>
      first_difference;  ///< The update after which parameters were others; 0: at once.
  std::optional<std::uint64_t> first_advantage_difference;  ///< The episode.
  double largest_difference = 0;  ///< Of a parameter, at the checkpoints: |replayed - logged|.
  double wall_s = 0;              ///< Of the updates made again, with reading and scoring the log,
  double update_s = 0;            ///< of which a learner without a log would have needed these.
  double learned_wall_s = 0;      ///< What they took then, in the learner alone.
  double run_wall_s = 0;  ///< From the first of their episodes on disk to the last update; 0: not known.
  bool stopped = false;   ///< By the watcher.
};

/// Reads the log in order, scores its episodes from their measurements, makes the updates again from the
/// checkpoint before them, and holds parameters against every hash that the run kept. Errors: kInvalid if
/// what the range needs is not in the log.
Result<ReplayReport> replay(LoggedRun& run, const ReplayRequest& request, const Clock& clock,
                            const ReplayWatcher& watcher);

}  // namespace emplace::launcher
