#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/text/words.h"
#include "launcher/cluster/operator/status_json.h"
#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/status_lines.h"

namespace emplace::launcher {
namespace {

constexpr Nanos kEvery = std::chrono::seconds{1};

/// A status that is drawn again with its age, so that a head that does not answer shows. Thread: one.
class WatchView {
 public:
  WatchView(std::string endpoint, Console& console)
      : endpoint_{std::move(endpoint)},
        terminal_{console.out_terminal()},
        view_{terminal_, clock_, true, [&console](std::string_view text) { console.write(text); }} {}
  ~WatchView() {
    if (!status_) return;  // What waits for the first status is erased.
    if (!terminal_.is_tty && !shown_) draw_status();
    view_.keep();
  }
  WatchView(const WatchView&) = delete;
  WatchView& operator=(const WatchView&) = delete;

  void show(const messages::StatusDelivered& status) {
    const bool other_start = status_ && status_->start != status.start;
    status_ = status;
    at_ = clock_.now();
    shown_ = false;
    if (other_start) return draw_status();  // It may end before the next redraw is due.
    draw();
  }
  void draw() {
    if (!view_.due()) return;
    if (status_) return draw_status();
    if (terminal_.is_tty) draw({"waiting for " + printable(endpoint_) + " to answer"});
  }

 private:
  void draw_status() {
    shown_ = true;
    draw(status_lines(*status_, terminal_, std::chrono::duration<double>(clock_.now() - at_).count()));
  }
  void draw(const std::vector<std::string>& lines) {
    std::string text{first_ ? "" : "\n"};
    for (const std::string& line : lines) text += line + "\n";
    view_.show_now(lines, text);
    first_ = false;
  }

  const std::string endpoint_;
  const SystemClock clock_;
  const Terminal terminal_;
  LiveView view_;
  std::optional<messages::StatusDelivered> status_;
  Nanos at_{0};         // When it came.
  bool shown_ = false;  // Since it came.
  bool first_ = true;   // Nothing has been drawn.
};

/// `ps`, and `top`, its old name with --watch.
class Ps final : public Command {
 public:
  explicit Ps(bool is_top)
      : Command{is_top ? "top" : "ps",
                is_top ? "" : "Show every node and actor of a run, and why nothing runs",
                "emplace ps runs/local"},
        watch_{is_top} {}
  void declare(Options& options) override {
    access_.declare(options);
    options.flag("--watch,-w", watch_, "Refresh until interrupted or the run is over");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto access, access_.access());
    if (watch_ && !console.json()) return watch(access, console);
    EMPLACE_TRY_ASSIGN(const int signal,
                       watch_status(access, watch_ ? kEvery : Nanos{0}, [&](const auto& status) {
                         if (console.json())
                           console.print(json_text(status_json(status)));
                         else
                           for (const std::string& line : status_lines(status, console.out_terminal()))
                             console.print(line);
                         console.flush();
                       }));
    return after_signal(signal);
  }

 private:
  static Result<ExitStatus> watch(const HeadAccess& access, Console& console) {
    WatchView view{access.endpoint, console};
    const auto signal = watch_status(
        access, kEvery, [&](const messages::StatusDelivered& status) { view.show(status); },
        [&] { view.draw(); });
    if (!signal) return signal.error();
    if (*signal == 0) console.note("the run has ended");
    return after_signal(*signal);
  }

  AccessOptions access_;
  bool watch_;
};

}  // namespace

std::unique_ptr<Command> make_ps() { return std::make_unique<Ps>(false); }
std::unique_ptr<Command> make_top() { return std::make_unique<Ps>(true); }

}  // namespace emplace::launcher
