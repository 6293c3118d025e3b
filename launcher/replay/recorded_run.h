#pragma once
/// A recorded run, opened for replay.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/task.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "policy/placer.h"
#include "record/run_reader.h"

namespace emplace::launcher {

/// One start of a run that is intact and not being written.
struct RecordedRun {
  std::filesystem::path directory;
  std::unique_ptr<record::RunReader> db;
  record::RunFacts facts;
  RunConfig config;
  actors::TaskPtr task;             ///< The recorded graphs and devices.
  std::vector<Placement> starting;  ///< [graphs] Placements that its policy started from; empty from scratch.
};

/// Returns the recorded graphs of a run with their devices. `where`: the run's name in errors. Rules are read
/// from the path in the config. Errors: kInvalid for damaged rows; kIo for missing rules.
Result<actors::TaskPtr> kept_task(const std::vector<record::GraphRow>& rows, const std::string& where,
                                  const RunConfig& config);

/// Opens `directory` and verifies all of its hashes. Errors (kInvalid): no run, a damaged one, one newer than
/// this program or still being written; graphs that are not recorded (schema 3) and whose files are missing
/// or changed.
Result<RecordedRun> open_recorded_run(const std::filesystem::path& directory);

/// Returns the run's policy with its initial parameters, ignoring run.policy. Errors (kInvalid): the config
/// needs something that this program lacks.
Result<std::unique_ptr<policy::Placer>> policy_of(const RecordedRun& run);

/// Returns what an update consumed, in order: actions and the advantages that were used. Errors (kInvalid):
/// the log lacks an episode, or the update has fewer advantages than placements.
Result<std::vector<policy::ScoredEpisode>> batch_of(const RecordedRun& run, const record::UpdateRow& update);

}  // namespace emplace::launcher
