#pragma once
/// A pipeline driven by the log of another run: samplers propose its episodes, executors answer with its
/// measurements. Only learning may differ. (`executor.kind = "replay"`, `executor.log`)

#include <filesystem>
#include <memory>

#include "actors/task.h"
#include "launcher/settings/config.h"
#include "policy/placer.h"

namespace emplace::launcher {

/// Every measurement of a log, by graph and placement. Immutable; thread: any.
class LoggedMeasurements;

/// The log that drives a run (`config.executor.log`), read once per process.
struct DrivingLog {
  std::filesystem::path directory;
  std::shared_ptr<const LoggedMeasurements> measurements;
  std::uint64_t episodes = 0;  ///< Number of episodes 0, 1, … without a gap.
};

/// Checks before anything is written that the log can drive the run. Errors (kInvalid): no such log, a
/// damaged one, one that is still being written, or one of another graph, devices, method, grouping or number
/// of placements per episode.
Result<Unit> check_driving_log(const RunConfig& config, const actors::Task& task);
/// Checks the log as check_driving_log() and reads it.
Result<DrivingLog> open_driving_log(const RunConfig& config, const actors::Task& task);

/// Makes an executor that answers with the log's measurements of a placement, in log order if there are
/// several and from the first again after the last. measure() returns kRunFailed for a placement that the log
/// lacks.
std::unique_ptr<Executor> make_replay_executor(const DrivingLog& log, const actors::TaskGraph& task);

/// Makes a placer whose sample() returns the logged episode; everything else is delegated to `policy`.
/// sample() throws if the log can no longer be read.
std::unique_ptr<policy::Placer> make_logged_placer(const DrivingLog& log,
                                                   std::unique_ptr<policy::Placer> policy);

}  // namespace emplace::launcher
