#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/node/node_process.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/run_options.h"

namespace emplace::launcher {
namespace {

void report_trace(const FinishedRun& run, Console& console) {
  if (!run.trace) return;
  if (!*run.trace) return console.warn(run.trace->error().context);
  const TraceSummary& trace = **run.trace;
  const std::string lost =
      trace.overwritten == 0 ? "" : fmt::format("; the oldest {} were overwritten", trace.overwritten);
  console.note(fmt::format("trace {}: {} slices{}", printable_path(run.trace_file), trace.slices, lost));
}

class Run final : public Command {
 public:
  Run()
      : Command{"run", "Start every actor of a config and learn until the budget is spent",
                "emplace run configs/quickstart.toml --budget 6s --run-dir runs/nmt"} {}
  void declare(Options& options) override {
    options.optional_operand("CONFIG", given_.config, "Config file; configs/reference.toml lists every key")
        .option("--cluster", given_.cluster,
                "Cluster file that assigns actors to processes (default: all in one process)");
    given_.declare(options);
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto request, given_.request(console));
    if (given_.config.empty() && given_.cluster.empty() && !given_.resume && given_.branch.empty())
      return invalid(
          "run", "needs a config",
          "give CONFIG, continue a run with --resume --run-dir DIR, or start from one with --branch RUN");
    return run_and_print(request, given_.status, console);
  }

 private:
  RunOptions given_;
};

/// The node process that `emplace run` starts. Users see its command line in process lists.
class NodeCommand final : public Command {
 public:
  NodeCommand() : Command{"node", "Run the actors of a run; started by `run`, not by hand"} {}
  void declare(Options& options) override {
    options.required("--config", config_, "Resolved config of the run")
        .required("--dir", directory_, "Directory of this start of the run")
        .required("--start", start_, "Start of the run: scratch or best-heuristic")
        .option("--run-id", run_id_, "Id of the run in its record")
        .option("--budget", budget_, "Wall time left, e.g. 60s (default: run.budget of the config)")
        .option("--cluster", cluster_, "Cluster file of the run (default: every actor in this process)")
        .option("--name", name_, "Name of this node in the cluster")
        .option("--endpoint", endpoint_, "Endpoint of the head: the head binds it, other nodes connect to it")
        .option("--beside", beside_, "Second endpoint that the head binds (default: none)")
        .option("--restarts", restarts_, "Earlier incarnations of this node");
  }
  Result<ExitStatus> run(Console&) override {
    NodeRequest request{config_,
                        cluster_,
                        name_,
                        endpoint_,
                        {start_, directory_},
                        beside_,
                        static_cast<std::uint32_t>(restarts_)};
    request.start.run_id = run_id_;
    if (!budget_.empty()) {
      const auto seconds = parse_seconds(budget_);
      if (!seconds) return invalid("--budget", seconds.error().context);
      request.start.budget_s = *seconds;
    }
    EMPLACE_TRY(run_node(request));
    return ExitStatus::kDone;
  }

 private:
  std::string config_, cluster_, directory_, start_, run_id_, budget_, endpoint_, beside_, name_ = "head";
  std::uint64_t restarts_ = 0;
};

}  // namespace

Result<ExitStatus> run_and_print(RunRequest request, const StatusOptions& status, Console& console) {
  EMPLACE_TRY_ASSIGN(const auto port, status.open(console));
  request.observer = port.get();
  EMPLACE_TRY_ASSIGN(const FinishedRun run, launcher::run(std::move(request)));
  if (run.summary.outcomes.empty()) return static_cast<ExitStatus>(run.summary.status);
  if (port != nullptr) port->finish();
  report_trace(run, console);
  const std::string page = printable_path(run.page);
  if (run.page_failure) console.warn(page + ": not written: " + run.page_failure->context);
  if (console.json())
    console.print(summary_json(run.summary));
  else
    console.print(summary_text(run.summary) + (run.page_failure ? "" : "report: " + page + "\n"));
  EMPLACE_TRY(check_found(run.summary));
  return static_cast<ExitStatus>(run.summary.status);
}

std::unique_ptr<Command> make_run() { return std::make_unique<Run>(); }
std::unique_ptr<Command> make_node() { return std::make_unique<NodeCommand>(); }

}  // namespace emplace::launcher
