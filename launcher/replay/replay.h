#pragma once
/// Replay: repeats the updates of a run from its log, and compares the parameters bit for bit.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fields.h"
#include "launcher/replay/recorded_run.h"

namespace emplace::launcher {

struct ReplayRequest {
  /// Range of log numbers (episodes.seq): the replay starts with the first update that consumed an episode
  /// from `from` on, and ends before the first one that consumed an episode after `to`. 0: no limit.
  std::uint64_t from = 0, to = 0;
};

/// A replayed update.
struct ReplayedUpdate {
  std::uint64_t update = 0, updates = 0;  ///< Number of this update, and of the last one.
  std::int64_t wall_ns = 0;               ///< Wall time of the update in the run [ns]; 0: unknown.
  double best_step_time_s = 0;            ///< Best step time consumed so far [s]; 0: no feasible placement.
};
/// Called after every update. Returns false to stop.
using ReplayWatcher = std::function<bool(const ReplayedUpdate&)>;

struct ReplayReport {
  std::uint64_t episodes = 0;  ///< Episodes that the replayed updates consumed.
  std::uint64_t updates = 0, first_update = 0, last_update = 0, checkpoints = 0;
  std::string parameters_sha256;  ///< Hash of the final parameters; empty if there were no updates.
  bool identical = true;          ///< Whether every parameter hash and every advantage equals the log's.
  double largest_difference = 0;  ///< Largest |replayed - logged| of a parameter at the checkpoints.
  /// First update whose parameters differ; 0: the initial parameters differ.
  std::optional<std::uint64_t> first_different_update;
  std::optional<std::uint64_t> first_different_advantage;  ///< First episode whose advantages differ.
  double wall_s = 0;          ///< Time of the replay, with reading and scoring the log [s].
  double update_s = 0;        ///< Time of the updates alone [s].
  double learned_wall_s = 0;  ///< Time of these updates in the run's learner [s].
  double run_wall_s = 0;  ///< Time in the run from their first episode to the last update [s]; 0: unknown.
  bool stopped = false;   ///< Whether the watcher stopped the replay.
  /// Those of the command's JSON.
  EMPLACE_FIELDS(episodes, updates, parameters_sha256, identical, first_update, last_update, checkpoints,
                 largest_difference, first_different_update, first_different_advantage, wall_s, update_s,
                 learned_wall_s, run_wall_s)
};

/// Reads the log in order, scores its episodes from their measurements, repeats the updates from the
/// checkpoint before them, and compares the parameters with every recorded hash. Errors: kInvalid if the log
/// lacks data that the range needs.
Result<ReplayReport> replay(RecordedRun& run, const ReplayRequest& request, const Clock& clock,
                            const ReplayWatcher& watcher);

}  // namespace emplace::launcher
