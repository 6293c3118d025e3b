#pragma once
/// A pipeline that is driven by a log: samplers propose what was proposed then, executors answer what was
/// measured then. Only what learns may differ. (`executor.kind = "replay"`, `executor.log`)

#include <filesystem>
#include <memory>

#include "actors/task.h"
#include "launcher/settings/config.h"
#include "policy/placer.h"

namespace emplace::launcher {

/// Every measurement of a log, by graph and placement. Thread: any; never changed.
class LoggedMeasurements;

/// What a run needs to be driven by `config.executor.log`, read once per process.
struct DrivingLog {
  std::filesystem::path directory;
  std::shared_ptr<const LoggedMeasurements> measurements;
  std::uint64_t episodes = 0;  ///< 0, 1, … without a gap.
};

/// Before anything is written: that the log can drive the run. Errors (kInvalid): no such log, a damaged one,
/// one that is still being written; of another graph, other devices, another method, grouping or number of
/// placements per episode: what the log cannot drive is refused by name.
Result<Unit> check_driving_log(const RunConfig& config, const actors::Task& task);
/// The same, and what is in it.
Result<DrivingLog> open_driving_log(const RunConfig& config, const actors::Task& task);

/// Answers with what the log has of a placement; where it was measured several times, in their order. Of what
/// it does not have: kRunFailed.
std::unique_ptr<Executor> make_replay_executor(const DrivingLog& log, const actors::TaskGraph& task);

/// Draws episode e as the log has it; all else is `policy`'s. Its sample() throws if the log cannot be read
/// any more.
std::unique_ptr<policy::Placer> make_logged_placer(const DrivingLog& log,
                                                   std::unique_ptr<policy::Placer> policy);

}  // namespace emplace::launcher
