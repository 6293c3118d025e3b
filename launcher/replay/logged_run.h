#pragma once
/// A run that is looked back at.

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

/// One start of a run, whole and quiet: nobody writes it while it is open.
struct LoggedRun {
  std::filesystem::path directory;
  std::unique_ptr<record::RunReader> db;
  record::RunFacts facts;
  RunConfig config;
  actors::TaskPtr task;              ///< Its graphs as the run had them.
  std::vector<Placement> baselines;  ///< [graphs] Where its policy began; empty for one from scratch.
};

/// The graphs that a run keeps, with their devices. `where` names it. Rules are read from where
/// the config has them. Errors (kInvalid): they are damaged; kIo: the rules are gone.
Result<actors::TaskPtr> kept_task(const std::vector<record::GraphRow>& rows, const std::string& where,
                                  const RunConfig& config);

/// Opens `directory` and holds everything in it against its hashes. Errors: kInvalid if it holds no run, is
/// damaged, newer than this program or still being written; if its graphs are not kept with it (schema 3) and
/// their files are gone or changed.
Result<LoggedRun> open_logged_run(const std::filesystem::path& directory);

/// Its policy as it was before the first update, but for what run.policy gave it. Errors: kInvalid: the
/// config asks for what this program does not have.
Result<std::unique_ptr<policy::Placer>> policy_of(const LoggedRun& run);

/// What an update of it consumed, in order: the actions and the advantages that were used. Errors (kInvalid):
/// the log does not have an episode, or not as many advantages as the update had placements.
Result<std::vector<policy::ScoredEpisode>> batch_of(const LoggedRun& run, const record::UpdateRow& update);

}  // namespace emplace::launcher
