#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/status_lines.h"

namespace emplace::launcher {
namespace {

class Ps final : public Command {
 public:
  Ps() : Command{"ps", "Show every node and actor of a run", "emplace ps runs/local"} {}
  void declare(Options& options) override {
    access_.declare(options);
    options.flag("--watch,-w", watch_, "Refresh until interrupted or the run is over");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto access, access_.access());
    const Nanos every = watch_ ? Nanos{std::chrono::seconds{1}} : Nanos{0};
    const Terminal terminal = console.out_terminal();
    if (!watch_ || !terminal.is_tty || console.json()) return print_status(access, every, console);
    const SystemClock clock;
    LiveView view{terminal, clock, true, [&](std::string_view text) { console.write(text); }};
    const auto signal = watch_status(access, every, [&](const messages::StatusDelivered& status) {
      view.show_now(status_lines(status, terminal), "");
    });
    view.keep();
    if (!signal) return signal.error();
    return after_signal(*signal);
  }

 private:
  AccessOptions access_;
  bool watch_ = false;
};

}  // namespace

std::unique_ptr<Command> make_ps() { return std::make_unique<Ps>(); }

}  // namespace emplace::launcher
