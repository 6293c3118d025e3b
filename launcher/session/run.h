#pragma once
/// `emplace run`: starts the processes of each start of a config, shows progress, restarts failed processes
/// and summarises the results.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cluster/node/actor_trace.h"
#include "launcher/session/run_plan.h"
#include "launcher/session/run_summary.h"

namespace emplace::launcher {

struct RunRequest {
  std::filesystem::path config;
  std::vector<std::string> settings;  ///< "section.key=value"
  std::filesystem::path cluster;      ///< Cluster file; empty: every actor runs in the head.
  std::string key;        ///< Cluster: the head's key file, with its allow-list in the same folder.
  bool insecure = false;  ///< Cluster: tcp without encryption.
  Engine engine = Engine::kAsWritten;  ///< Cluster: where executors run.
  bool push = false;                   ///< Copy the program to hosts reached by ssh.
  std::string run_dir;                 ///< Run directory; empty: that of the config, or runs/NAME-TIME.
  bool resume = false;
  std::string branch;  ///< Checkpoint to start from (CheckpointName in launcher/settings/placers.h). Without
                       ///< `config`, the config of its run is used.
  std::optional<double> budget_s;
  std::optional<std::uint64_t> episodes, seed;
  std::string trace;  ///< Trace file; empty: as configured.
  bool quiet = false;
  RunObserver* observer = nullptr;               ///< Follows the run; may be null.
  std::function<void(const std::string&)> warn;  ///< Receives warnings about renamed settings.
};

/// A run that has ended, with its trace and report. A failure to write these is no failure of the run.
struct FinishedRun {
  RunSummary summary;
  std::filesystem::path trace_file;
  std::optional<Result<TraceSummary>> trace;  ///< Result of writing the trace; none if tracing is off.
  std::filesystem::path page;                 ///< The report.
  std::optional<Error> page_failure;          ///< Why the report was not written; none if it was.
};

/// A file of Kubernetes manifests.
struct Manifests {
  std::string file;
  bool open = false;  ///< No key secret is named: any pod of the cluster can join the run and stop it.
};

/// Runs every start of an order: plan, check, lock the directory, prepare, run, summarise. Prints progress to
/// standard error unless the order is quiet. Errors: kInvalid and kIo before the start; kRunFailed.
Result<RunSummary> perform(RunOrder order);

/// Returns the summary as one JSON object on one line.
std::string summary_json(const RunSummary& summary);

/// Writes the manifests with which `kubectl apply` starts the request's cluster; starts nothing. Errors:
/// kInvalid, kIo.
Result<Manifests> write_manifests(RunRequest request, const std::filesystem::path& file);

/// Resolves and performs the request, and writes its trace and report. Prints only progress. Errors: those of
/// perform().
Result<FinishedRun> run(RunRequest request);

}  // namespace emplace::launcher
