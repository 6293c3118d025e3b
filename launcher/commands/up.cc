#include "base/units.h"
#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/json_object.h"
#include "launcher/run/run.h"

namespace emplace::launcher {
namespace {

class Up final : public Command {
 public:
  std::string_view name() const override { return "up"; }
  std::string_view summary() const override {
    return "Bring a run's actors up on the hosts of a cluster file";
  }
  void declare(Options& options) override {
    options.operand("CLUSTER", cluster_, "Cluster file: nodes, hosts, roles; it names the config, too")
        .repeated("--set", settings_,
                  "KEY=VALUE of the cluster file (head.endpoint, node.NAME.count) or the config")
        .option("--config", config_, "Config to run, instead of the cluster file's")
        .option("--run-dir", run_dir_, "Where the run is kept, instead of the cluster file's")
        .flag("--resume", resume_, "Go on with the run that is kept there")
        .option("--budget", budget_, "Wall time of the whole run, e.g. 60s")
        .option("--key,-k", key_, "The head's key file; allowed.toml lies beside it")
        .flag("--insecure", insecure_, "Talk in the open")
        .flag("--push", push_, "Copy this program to the hosts that are reached by ssh")
        .option("--manifests", manifests_, "Write Kubernetes manifests there and start nothing");
  }
  Result<ExitStatus> run(Console& console) override {
    if (!key_.empty() && insecure_) return invalid("--insecure", "and --key are both given", "leave one out");
    RunRequest request;
    request.cluster = cluster_;
    request.config = config_;
    request.settings = settings_;
    request.run_dir = run_dir_;
    request.resume = resume_;
    request.key = key_;
    request.insecure = insecure_;
    request.push = push_;
    if (!budget_.empty()) {
      const auto seconds = parse_seconds(budget_);
      if (!seconds) return invalid("--budget", seconds.error().context);
      request.budget_s = *seconds;
    }
    if (console.options().seed_given) request.seed = console.seed();
    request.json = console.json();
    request.quiet = !console.shows_progress();
    if (!manifests_.empty()) {
      const auto written = write_manifests(request, manifests_);
      if (!written) return written.error();
      if (console.json()) {
        JsonObject json;
        json.add("manifests", *written);
        console.print(json.text());
      } else {
        console.print("wrote " + *written + "; bring it up with: kubectl apply -f " + *written + "\n");
      }
      return ExitStatus::kDone;
    }
    const auto status = launcher::run(request);
    if (!status) return status.error();
    return static_cast<ExitStatus>(*status);
  }

 private:
  std::string cluster_, config_, run_dir_, budget_, key_, manifests_;
  std::vector<std::string> settings_;
  bool resume_ = false, insecure_ = false, push_ = false;
};

}  // namespace

std::unique_ptr<Command> make_up() { return std::make_unique<Up>(); }

}  // namespace emplace::launcher
