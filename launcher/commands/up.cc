#include <nlohmann/json.hpp>

#include "launcher/commands/commands.h"
#include "launcher/commands/run_options.h"
#include "launcher/settings/json_text.h"

namespace emplace::launcher {
namespace {

class Up final : public Command {
 public:
  std::string_view name() const override { return "up"; }
  std::string_view summary() const override {
    return "Bring a run's actors up on the hosts of a cluster file";
  }
  void declare(Options& options) override {
    options.operand("CLUSTER", given_.cluster, "Cluster file: nodes, hosts, roles; it names the config, too")
        .option("--config", given_.config, "Config to run, instead of the cluster file's")
        .option("--key,-k", key_, "The head's key file; allowed.toml lies beside it")
        .flag("--insecure", insecure_, "Talk in the open")
        .flag("--push", push_, "Copy this program to the hosts that are reached by ssh")
        .option("--manifests", manifests_, "Write Kubernetes manifests there and start nothing");
    given_.declare(options);
  }
  Result<ExitStatus> run(Console& console) override {
    if (!key_.empty() && insecure_) return invalid("--insecure", "and --key are both given", "leave one out");
    EMPLACE_TRY_ASSIGN(auto request, given_.request(console));
    request.key = key_;
    request.insecure = insecure_;
    request.push = push_;
    if (!manifests_.empty()) {
      EMPLACE_TRY_ASSIGN(const Manifests written, write_manifests(request, manifests_));
      if (written.open)
        console.warn(
            "kubernetes.key_secret is missing: every pod of the cluster may join this run and end it");
      if (console.json()) {
        const Json json{{"manifests", written.file}};
        console.print(json_text(json));
      } else {
        console.print("wrote " + written.file + "; bring it up with: kubectl apply -f " + written.file +
                      "\n");
      }
      return ExitStatus::kDone;
    }
    return run_and_print(request, console);
  }

 private:
  RunOptions given_;
  std::string key_, manifests_;
  bool insecure_ = false, push_ = false;
};

}  // namespace

std::unique_ptr<Command> make_up() { return std::make_unique<Up>(); }

}  // namespace emplace::launcher
