#pragma once
/// Options that `run` and `up` share.

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"
#include "launcher/commands/status_options.h"
#include "launcher/session/run.h"
#include "launcher/terminal/command.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

/// The options as given on the command line.
struct RunOptions {
  std::string config, cluster, run_dir, budget, trace, rules, reserve, costs, float32;
  std::vector<std::string> settings;
  std::uint64_t episodes = 0;
  bool resume = false;
  std::string branch;
  StatusOptions status;

  void declare(Options& options) {
    options
        .repeated(
            "--set", settings,
            "KEY=VALUE overrides a key of the config (policy.groups) or of the cluster file (head.endpoint, "
            "node.NAME.count); may be repeated")
        .option("--run-dir", run_dir,
                "Run directory (default: run.dir of the config or cluster file, else runs/NAME-TIME)")
        .flag("--resume", resume, "Continue the run in --run-dir")
        .option("--branch", branch,
                "Start from a checkpoint of another run: RUN, RUN@UPDATE or RUN@best; without CONFIG, that "
                "run's config is used")
        .option("--budget", budget,
                "Learning time, divided among the starts, e.g. 60s (default: run.budget of the config, 60s "
                "unless set)")
        .option("--rules", rules,
                "Rules file with pins, allowed and forbidden devices, co-location (default: input.rules of "
                "the config)")
        .option("--reserve", reserve,
                "Memory kept free per device, e.g. 10% or 2GiB (default: input.reserve of the config)")
        .option("--cost-version", costs,
                "Cost version of a machine that is no file, 1 or 2 (default: input.costs of the config)")
        .option("--float32", float32,
                "What products and convolutions of float32 tensors use: ieee or tf32 (default: input.float32 "
                "of the config)")
        .option("--trace", trace,
                "Write a trace of every actor to this file (.json or .json.gz) for Perfetto (default: none)")
        .option("--episodes", episodes,
                "Stop each start after N episodes; 0: as in the config (run.episodes)");
    status.declare(
        options, "--status",
        "Serve the run's page, status, metrics and probes on this ADDRESS:PORT, e.g. 127.0.0.1:9090 "
        "(default: off)");
  }
  /// Errors (kInvalid): a malformed budget or reserve; an unknown cost version or arithmetic; --resume with
  /// --branch.
  Result<RunRequest> request(Console& console) const {
    RunRequest request;
    request.config = config;
    request.cluster = cluster;
    request.settings = settings;
    if (!rules.empty())
      request.settings.push_back("input.rules=" +
                                 std::filesystem::absolute(rules).lexically_normal().string());
    if (!reserve.empty()) {
      const auto kept = parse_reserve(reserve);
      if (!kept) return invalid("--reserve", kept.error().context);
      request.settings.push_back("input.reserve=" + kept->text());
    }
    if (!costs.empty()) {
      const auto known = parse_word<CostVersion>(costs);
      if (!known) return invalid("--cost-version", known.error().context);
      request.settings.push_back("input.costs=" + costs);
    }
    if (!float32.empty()) {
      EMPLACE_TRY(GraphReading{.float32 = float32}.options());
      request.settings.push_back("input.float32=" + float32);
    }
    request.run_dir = run_dir;
    request.resume = resume;
    request.branch = branch;
    if (resume && !branch.empty())
      return invalid("--branch", "starts a new run and conflicts with --resume", "remove one of them");
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

/// Runs the request, shows it on its status port, and prints the result: a summary for people, or one JSON
/// object. Returns kDone, or the exit status of the signal that stopped the run. Errors: those of run() and
/// of StatusOptions::open(); kNoPlacement if no feasible placement was found.
Result<ExitStatus> run_and_print(RunRequest request, const StatusOptions& status, Console& console);

}  // namespace emplace::launcher
