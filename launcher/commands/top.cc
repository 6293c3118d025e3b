#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "launcher/commands/access.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/status_lines.h"
#include "launcher/screen/full_screen.h"
#include "launcher/screen/top_screen.h"
#include "launcher/settings/config.h"
#include "record/run_reader.h"

namespace emplace::launcher {
namespace {

constexpr Nanos kStatusInterval = std::chrono::seconds{1};
constexpr Nanos kKeyInterval =
    std::chrono::milliseconds{40};  // A key is answered in less than a tenth of a second.

/// Reads the facts about a start from the record of a run on this machine; nothing if it cannot be read, or
/// if its numbers are not comparable with measurements.
TopScreen::Known known_of(const std::filesystem::path& directory) {
  TopScreen::Known known;
  const auto db = record::RunReader::open(directory, record::Reading::kInProgress);
  if (!db) return known;
  const auto facts = (*db)->header().facts();
  const auto config =
      facts ? recorded_config(facts->config_toml, "config") : Result<RunConfig>{facts.error()};
  if (!config) return known;
  known.budget_s =
      config->run.budget.seconds / static_cast<double>(std::max<std::size_t>(1, config->run.starts.size()));
  const auto graphs = (*db)->header().graph_facts();
  if (uses_real_devices(config->executor.kind) || !graphs || graphs->size() != 1) return known;
  known.bound_s = graphs->front().lower_bound_s;
  known.heuristic = printable(graphs->front().heuristic, 40);
  known.heuristic_s = graphs->front().heuristic_s;
  return known;
}

/// The screen of one run, driven by watch_status(). Thread: one.
class TopWatch {
 public:
  TopWatch(const HeadAccess& access, std::filesystem::path directory, Terminal style, const Clock& clock)
      : access_{access},
        directory_{std::move(directory)},
        clock_{clock},
        top_{printable(access.endpoint), style} {}

  /// Returns the signal that ended it, or 0: the person left, or the run has ended. The terminal is restored
  /// on return. Errors: those of watch_status().
  Result<int> run(std::unique_ptr<FullScreen> screen) {
    const WatchTick tick{kKeyInterval, [&] { return answer_keys(*screen); }};
    draw(*screen);
    return watch_status(
        access_, kStatusInterval, [&](const messages::StatusDelivered& status) { show(*screen, status); },
        tick);
  }
  /// Whether the person left: by the key q, or with the terminal.
  bool left() const { return left_; }
  std::vector<std::string> summary() const { return top_.summary(clock_.now()); }

 private:
  bool answer_keys(FullScreen& screen) {
    const std::string typed = screen.typed();
    const std::vector<Key> keys = typed.empty() ? keys_.idle() : keys_.feed(typed);
    for (const Key& key : keys) top_.press(key);
    const ScreenSize size = screen.size();
    const bool resized = size.rows != size_.rows || size.columns != size_.columns;
    if (!keys.empty() || screen.retaken() || resized || clock_.now() - drawn_ >= kStatusInterval)
      draw(screen);
    left_ = top_.done() || screen.gone();
    return !left_;
  }

  void show(FullScreen& screen, const messages::StatusDelivered& status) {
    if (status.start != start_ && !directory_.empty()) top_.know(known_of(directory_));
    start_ = status.start;
    top_.update(status, clock_.now());
    draw(screen);
  }

  void draw(FullScreen& screen) {
    size_ = screen.size();
    drawn_ = clock_.now();
    screen.show(top_.lines(size_, drawn_));
  }

  const HeadAccess& access_;
  const std::filesystem::path directory_;  // The run directory, if it is on this machine; else empty.
  const Clock& clock_;
  TopScreen top_;
  KeyReader keys_;
  ScreenSize size_;
  Nanos drawn_{0};
  std::string start_;
  bool left_ = false;
};

class Top final : public Command {
 public:
  Top()
      : Command{"top", "Watch a run on one screen: nodes, actors, why nothing runs",
                "emplace top runs/local"} {}
  void declare(Options& options) override { access_.declare(options); }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto access, access_.access());
    if (console.json()) return print_status(access, Nanos{0}, console);
    auto screen = FullScreen::open();
    if (!screen) {
      console.debug(screen.error().context + "; plain lines instead");
      return print_status(access, kStatusInterval, console);
    }
    const SystemClock clock;
    std::error_code ignored;
    const bool here = std::filesystem::is_directory(access_.address, ignored);
    TopWatch watch{access, here ? access_.address : "", console.out_terminal(), clock};
    const auto signal = watch.run(*std::move(screen));
    if (!signal) return signal.error();
    if (*signal == 0 && !watch.left()) {
      for (const std::string& line : watch.summary()) console.print(line);
      console.note("the run has ended");
    }
    return after_signal(*signal);
  }

 private:
  AccessOptions access_;
};

}  // namespace

std::unique_ptr<Command> make_top() { return std::make_unique<Top>(); }

}  // namespace emplace::launcher
