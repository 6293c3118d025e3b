#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/files/file_store.h"
#include "launcher/cluster/node/node_process.h"
#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/placing/torch_options.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

class Join final : public Command {
 public:
  Join()
      : Command{"join", "Add this machine's executors to a run", "emplace join runs/local --executors 2"} {}
  void declare(Options& options) override {
    access_.declare(options);
    options
        .option("--executors,-n", executors_,
                "Number of executors; 0: one per CPU core, or one for real devices")
        .option("--executor", executor_,
                "Kind of the executors: sim, placeto, cpu, cuda, fake or torch (default: executor.kind of "
                "the run)")
        .option("--as", as_, "Name of a node in the run's cluster file whose roles this process takes")
        .option("--cache", cache_, "Folder that caches graphs of runs (default: ~/.cache/emplace)")
        .option("--patience", patience_, "Connect timeout: how long to retry until the head answers")
        .flag("--die-with-parent", die_with_parent_,
              "Leave the run when the parent process or standard input ends; for engines that start joins")
        .flag("--for-launcher", for_launcher_,
              "Started by `up`: print machine-readable lines, exit when standard input closes");
    torch_.declare(options);
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto access, access_.access());
    JoinRequest request{.head = access.endpoint, .keys = access.keys, .insecure = access.insecure};
    request.name = as_;
    if (!as_.empty() && executors_ != 0)
      return invalid("--as", "conflicts with --executors",
                     "remove --executors: the cluster file sets their number");
    if (executors_ > kMaxExecutors)
      return invalid("--executors", fmt::format("is more than {}", kMaxExecutors),
                     "start `emplace join` several times");
    request.executors = static_cast<std::uint32_t>(executors_);
    request.executor = executor_;
    ProcessRequest process;
    EMPLACE_TRY(torch_.fill(process, executor_.empty() ? "torch" : executor_));  // Else the run decides.
    if (executor_ == "torch") EMPLACE_TRY(check_process_executor(executor_, Judge{}, process));
    request.model = process.model;
    request.threads = static_cast<std::uint32_t>(torch_.threads);
    request.for_launcher = for_launcher_;
    request.die_with_parent = die_with_parent_;
    const auto patience = parse_seconds(patience_);
    if (!patience) return invalid("--patience", patience.error().context);
    if (*patience <= 0 || *patience > 1e6)
      return invalid("--patience", "must be more than 0 and at most 1000000s");
    request.patience = as_nanos(*patience);
    if (cache_.empty()) {
      EMPLACE_TRY_ASSIGN(request.cache, cache_folder());
    } else {
      request.cache = cache_;
    }
    request.note = [&](const std::string& text) { console.note(text); };
    EMPLACE_TRY_ASSIGN(const auto joined, join_run(request));
    if (console.json() && !for_launcher_) {
      const Json json{{"node", joined.node},
                      {"head", request.head},
                      {"reason", joined.reason},
                      {"fetched_bytes", joined.fetched}};
      console.print(json_text(json));
    } else {
      console.note("left: " + (joined.reason.empty() ? "the run is over" : joined.reason));
    }
    return for_launcher_ ? ExitStatus::kDone : after_signal(joined.received_signal);
  }

 private:
  AccessOptions access_;
  TorchOptions torch_;
  std::uint64_t executors_ = 0;
  std::string executor_, as_, cache_, patience_ = "10s";
  bool for_launcher_ = false, die_with_parent_ = false;
};

}  // namespace

std::unique_ptr<Command> make_join() { return std::make_unique<Join>(); }

}  // namespace emplace::launcher
