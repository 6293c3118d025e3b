#include <nlohmann/json.hpp>

#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

class Down final : public Command {
 public:
  Down() : Command{"down", "Stop a run and keep its results", "emplace down runs/local"} {}
  void declare(Options& options) override { access_.declare(options); }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto access, access_.access());
    console.note("asking " + access.endpoint + " to stop the run");
    EMPLACE_TRY_ASSIGN(const auto signal, end_run(access));
    if (signal == 0 && console.json()) {
      const Json json{{"head", access.endpoint}, {"ended", true}};
      console.print(json_text(json));
    } else if (signal == 0) {
      console.print("stopped\n");
    }
    return after_signal(signal);
  }

 private:
  AccessOptions access_;
};

}  // namespace

std::unique_ptr<Command> make_down() { return std::make_unique<Down>(); }

}  // namespace emplace::launcher
