#pragma once
/// What `run` and `up` both take.

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"
#include "launcher/command.h"
#include "launcher/console.h"
#include "launcher/options.h"
#include "launcher/session/run.h"

namespace emplace::launcher {

/// As they were typed.
struct RunOptions {
  std::string config, cluster, run_dir, budget, trace, rules, reserve;
  std::vector<std::string> settings;
  std::uint64_t episodes = 0;
  bool resume = false;
  std::string branch;

  void declare(Options& options) {
    options
        .repeated(
            "--set", settings,
            "KEY=VALUE over the config (policy.groups) or the cluster file (head.endpoint, node.NAME.count)")
        .option("--run-dir", run_dir, "Where the run is kept; without it as the files say, or runs/NAME-TIME")
        .flag("--resume", resume, "Go on with the run that is kept there")
        .option(
            "--branch", branch,
            "Begin with a checkpoint of another run: RUN, RUN@UPDATE or RUN@best; without a CONFIG with its")
        .option("--budget", budget, "Wall time of the whole run, e.g. 60s")
        .option("--rules", rules, "Rules file, over the config's: pins, allowed devices, co-location")
        .option("--reserve", reserve, "Memory kept free per device, as 10%, over the config's")
        .option("--trace", trace, "Writes what every actor did and when, for Perfetto: .json or .json.gz")
        .option("--episodes", episodes, "End each start after so many episodes; 0: no limit");
  }
  /// Errors (kInvalid): a budget that is none.
  Result<RunRequest> request(Console& console) const {
    RunRequest request;
    request.config = config;
    request.cluster = cluster;
    request.settings = settings;
    if (!rules.empty())
      request.settings.push_back("input.rules=" +
                                 std::filesystem::absolute(rules).lexically_normal().string());
    if (!reserve.empty()) {
      const auto share = parse_share(reserve);
      if (!share) return invalid("--reserve", share.error().context);
      request.settings.push_back(fmt::format("input.reserve={:f}", *share));
    }
    request.run_dir = run_dir;
    request.resume = resume;
    request.branch = branch;
    if (resume && !branch.empty()) return invalid("--branch", "begins a run, which --resume does not");
    request.trace = trace;
    if (!budget.empty()) {
      const auto seconds = parse_seconds(budget);
      if (!seconds) return invalid("--budget", seconds.error().context);
      request.budget_s = *seconds;
    }
    if (episodes != 0) request.episodes = episodes;
    if (console.options().seed_given) request.seed = console.seed();
    request.quiet = !console.shows_progress();
    request.warn = [&console](const std::string& text) { console.warn(text); };
    return request;
  }
};

/// Runs it, and prints what has come of it: a summary for people, or one JSON object. The value is kDone, or
/// what stands for the signal that has ended the run. Errors: as run(); kNoPlacement if nothing that fits was
/// found.
Result<ExitStatus> run_and_print(const RunRequest& request, Console& console);

}  // namespace emplace::launcher
