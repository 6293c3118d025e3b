#pragma once
/// `emplace run`: starts the processes for each start of a config, shows how it goes, brings back who dies,
/// and sums up.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/wiring.h"
#include "record/run_results.h"

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
  bool json = false, quiet = false;
};

/// What is known of a start when it has ended.
struct Outcome {
  Start start;
  std::string progress;            ///< The head's last line, JSON.
  std::vector<std::string> nodes;  ///< Its processes,
  std::vector<int> restarts;       ///< and how often each came back.
  record::Counters counters;
  std::uint64_t consumed_twice = 0;  ///< Episodes that updates name once more than once.
  std::string parameters_sha256;
  double wall_s = 0;
  std::vector<record::TableRow> rows;  ///< By graph: its best placement, measured once more.
};

/// A run that has ended.
struct RunSummary {
  actors::TaskPtr task;
  std::vector<Baselines> baselines;  ///< By graph.
  std::vector<Outcome> outcomes;     ///< By start.
  std::filesystem::path directory;
  int status = 0;  ///< Of the process: 0, or 129 / 130 / 143 after a clean end by a signal.
};

/// Runs every start of a resolved config in `directory`. Progress goes to standard error unless `quiet`.
/// `cluster` says in which processes the actors live; none: in one. `push`: the program is brought to hosts
/// that lack it. Errors: kInvalid, kIo before the start; kRunFailed.
Result<RunSummary> perform(RunConfig config, const std::filesystem::path& directory, bool resume, bool quiet,
                           const std::optional<Cluster>& cluster = std::nullopt, bool push = false);

/// Writes what `kubectl apply` needs to bring the request's cluster up; starts nothing. The value is the
/// file. Errors: kInvalid, kIo.
Result<std::string> write_manifests(RunRequest request, const std::filesystem::path& file);

/// Returns the exit status: 0, or 129 / 130 / 143 after a clean end by a signal. The summary goes to standard
/// output (one JSON object with `json`), progress to standard error. Errors: kInvalid, kIo before the start;
/// kNoPlacement if nothing that fits was found; kRunFailed.
Result<int> run(const RunRequest& request);

}  // namespace emplace::launcher
