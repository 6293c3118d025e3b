#include <string>

#include "base/clock.h"
#include "base/cores.h"
#include "lab/pretrained/train_command.h"
#include "lab/pretrained/training.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/setting_options.h"
#include "launcher/terminal/stop_signal.h"

namespace emplace::lab {
namespace {

using launcher::Command;
using launcher::Console;
using launcher::ExitStatus;
using launcher::Options;
using launcher::parse_whole;
using launcher::stopped_by;
using launcher::StopSignal;

class Train final : public Command {
 public:
  Train()
      : Command{"train", "Train a policy for any graph and machine, as --method pretrained uses one",
                "emplace train configs/pretrained/recipe.toml -o scheduler.weights"} {}
  void declare(Options& options) override {
    options.operand("RECIPE", recipe_, "Recipe file: worlds, seeds, sizes and rates")
        .required("-o,--output", output_,
                  "File of weights to write; the state beside it lets the same command continue")
        .option("--threads", threads_, "Worlds that are worked on in parallel; 0: one per core");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto threads, parse_whole("--threads", threads_, 0, 256));
    EMPLACE_TRY_ASSIGN(const auto recipe, load_recipe(recipe_));
    const SystemClock clock;
    const StopSignal stop;
    const TrainEvents events{[&](const std::string& line) { console.note(line); },
                             [&] { return stop.received() != 0; }};
    EMPLACE_TRY_ASSIGN(
        const bool done,
        train_scheduler(recipe, output_, threads == 0 ? usable_cores() : threads, clock, events));
    if (!done) return stopped_by(stop.received());
    EMPLACE_TRY_ASSIGN(const auto policy, policy::load_scheduler(output_));
    console.print("policy     " + policy.name() + "\nwritten    " + output_);
    return ExitStatus::kDone;
  }

 private:
  std::string recipe_, output_, threads_ = "0";
};

}  // namespace

std::unique_ptr<Command> make_train() { return std::make_unique<Train>(); }

}  // namespace emplace::lab
