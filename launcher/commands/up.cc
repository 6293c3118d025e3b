#include <nlohmann/json.hpp>

#include "base/text/words.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/run_options.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

class Up final : public Command {
 public:
  Up()
      : Command{"up", "Start a run on the hosts of a cluster file",
                "emplace up configs/clusters/local.toml --insecure --budget 30s --run-dir runs/local"} {}
  void declare(Options& options) override {
    options.operand("CLUSTER", given_.cluster, "Cluster file: nodes, hosts, roles and the config to run")
        .option("--config", given_.config, "Config to run (default: the one that the cluster file names)")
        .option("--key,-k", key_, "Key file of the head, with allowed.toml in the same folder")
        .flag("--insecure", insecure_, "Accept connections without encryption")
        .flag("--push", push_, "Copy this program to the hosts that are reached by ssh")
        .option("--on", on_, "Engine that runs the executors, instead of what the cluster file names: ray")
        .option("--manifests", manifests_, "Write Kubernetes manifests to this path and start nothing");
    given_.declare(options);
  }
  Result<ExitStatus> run(Console& console) override {
    if (!key_.empty() && insecure_)
      return invalid("--insecure", "conflicts with --key", "remove one of them");
    EMPLACE_TRY_ASSIGN(auto request, given_.request(console));
    request.key = key_;
    request.insecure = insecure_;
    request.push = push_;
    if (!on_.empty() && on_ != "ray")
      return invalid("--on", "'" + printable(on_, 40) + "' is unknown", "use ray");
    if (!on_.empty()) request.engine = Engine::kRay;
    if (!manifests_.empty()) {
      EMPLACE_TRY_ASSIGN(const Manifests written, write_manifests(request, manifests_));
      if (written.open)
        console.warn(
            "kubernetes.key_secret is missing: any pod of the cluster can join this run and stop it");
      if (console.json()) {
        const Json json{{"manifests", written.file}};
        console.print(json_text(json));
      } else {
        console.print("wrote " + written.file + "; start it with: kubectl apply -f " + written.file + "\n");
      }
      return ExitStatus::kDone;
    }
    return run_and_print(std::move(request), given_.status, console);
  }

 private:
  RunOptions given_;
  std::string key_, on_, manifests_;
  bool insecure_ = false, push_ = false;
};

}  // namespace

std::unique_ptr<Command> make_up() { return std::make_unique<Up>(); }

}  // namespace emplace::launcher
