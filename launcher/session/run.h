#pragma once
/// `emplace run`: starts the processes for each start of a config, shows how it goes, brings back who dies,
/// and sums up.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/session/run_plan.h"
#include "launcher/session/run_summary.h"
#include "launcher/session/run_trace.h"

namespace emplace::launcher {

struct RunRequest {
  std::filesystem::path config;
  std::vector<std::string> settings;  ///< "section.key=value"
  std::filesystem::path cluster;      ///< Empty: every actor lives in the head.
  std::string key;        ///< The head's key file, for the cluster; its allow-list lies beside it.
  bool insecure = false;  ///< For the cluster: tcp in the open.
  bool push = false;      ///< Bring the program to hosts reached by ssh.
  std::string run_dir;    ///< Empty: the config's, or runs/NAME-TIME.
  bool resume = false;
  std::string branch;  ///< Checkpoint that it begins from, as launcher/settings/placers.h names them; its
                       ///< run's config where none is given.
  std::optional<double> budget_s;
  std::optional<std::uint64_t> episodes, seed;
  std::string trace;  ///< File for what every actor did and when; empty: as the config says.
  bool quiet = false;
  std::function<void(const std::string&)> warn;  ///< Is told of settings that are called otherwise now.
};

/// A run that has ended, and what was made of it afterwards. What could not be made is no failure of the run:
/// it has its results by then.
struct FinishedRun {
  RunSummary summary;
  std::filesystem::path trace_file;
  std::optional<Result<TraceSummary>> trace;  ///< None where no trace is kept.
  std::filesystem::path page;                 ///< Explains the run.
  std::optional<Error> page_failure;          ///< None: the page is there.
};

/// Kubernetes manifests that lie in a file.
struct Manifests {
  std::string file;
  bool open = false;  ///< Every pod of the cluster may join the run and end it: no key secret is named.
};

/// Runs every start of an order: plans, checks, takes the folder, prepares, runs, sums up. Progress goes to
/// standard error unless the order is quiet. Errors: kInvalid, kIo before the start; kRunFailed.
Result<RunSummary> perform(RunOrder order);

/// The summary as one JSON object on one line.
std::string summary_json(const RunSummary& summary);

/// Writes what `kubectl apply` needs to bring the request's cluster up; starts nothing. Errors: kInvalid,
/// kIo.
Result<Manifests> write_manifests(RunRequest request, const std::filesystem::path& file);

/// Resolves the request, performs it, and makes its trace and its page. Prints progress alone. Errors: as
/// perform.
Result<FinishedRun> run(RunRequest request);

}  // namespace emplace::launcher
