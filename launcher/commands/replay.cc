#include <poll.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/results.h"
#include "launcher/json_object.h"
#include "launcher/run/replay.h"
#include "launcher/stop_signal.h"

namespace emplace::launcher {
namespace {

class Replay final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Learn a run's log once more: to the same parameters, bit for bit";
  }
  void declare(Options& options) override {
    options.operand("RUN", run_dir_, "Run directory; a further start of it is a folder in it")
        .flag("--verify", verify_,
              "Hold parameters and advantages against the log's; exit 4 where they differ")
        .option("--from", from_, "Begin at this episode of the log (episodes.seq)")
        .option("--to", to_, "End before an update needs an episode after this one")
        .option("--speed", speed_,
                "As fast as then (1), twice as fast (2), …; without it as fast as it goes");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<double> speed() const;
  void print(Console& console, const ReplayReport& report) const;

  std::string run_dir_, speed_;
  bool verify_ = false;
  std::uint64_t from_ = 0, to_ = 0;
};

/// A while, or until a signal comes.
void wait_for(Nanos while_, const StopSignal& stop) {
  for (; while_.count() > 0 && stop.received() == 0; while_ -= std::chrono::milliseconds{20})
    ::poll(nullptr, 0, while_ < std::chrono::milliseconds{20} ? 1 : 20);
}

Result<double> Replay::speed() const {
  if (speed_.empty()) return 0.0;
  char* end = nullptr;
  const double speed = std::strtod(speed_.c_str(), &end);
  if (*end != '\0' || !std::isfinite(speed) || speed <= 0)
    return invalid("--speed " + printable(speed_), "is no speed",
                   "1 is as fast as the run was, 10 ten times");
  return speed;
}

Result<ExitStatus> Replay::run(Console& console) {
  const auto speed = this->speed();
  if (!speed) return speed.error();
  if (to_ != 0 && to_ < from_) return invalid("--to", "lies before --from");
  auto run = open_logged_run(run_dir_);
  if (!run) return run.error();
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  const Nanos began = clock.now();
  std::int64_t first_ns = 0;
  const auto report = replay(*run, {from_, to_}, clock, [&](const ReplayedUpdate& now) {
    if (*speed > 0 && now.wall_ns > 0) {
      if (first_ns == 0) first_ns = now.wall_ns;
      const Nanos due{static_cast<std::int64_t>(static_cast<double>(now.wall_ns - first_ns) / *speed)};
      wait_for(due - (clock.now() - began), stop);
    }
    if (view.due()) {
      const std::string line =
          "update " + std::to_string(now.update) + " of " + std::to_string(now.updates) +
          (now.best_step_time_s > 0 ? ", best so far " + format_seconds(now.best_step_time_s) : "");
      view.show(std::array{line}, line);
    }
    return stop.received() == 0;
  });
  view.clear();
  if (!report) return report.error();
  if (report->stopped) return stopped_by(stop.received());
  print(console, *report);
  if (!report->identical)
    return Error{Errc::kRunFailed, printable(run_dir_) + ": the replay differs from the run, which emplace " +
                                       run->facts.software_version + " recorded on " +
                                       printable(run->facts.host)};
  return ExitStatus::kDone;
}

void Replay::print(Console& console, const ReplayReport& r) const {
  if (console.json()) {
    JsonObject json;
    json.add("episodes", r.episodes).add("updates", r.updates);
    json.add("parameters_sha256", r.parameters_sha256).add("identical", r.identical);
    json.add("first_update", r.first_update).add("last_update", r.last_update);
    json.add("checkpoints", r.checkpoints).add("largest_difference", r.largest_difference);
    r.first_difference ? json.add("first_different_update", *r.first_difference)
                       : json.add_null("first_different_update");
    r.first_advantage_difference ? json.add("first_different_advantage", *r.first_advantage_difference)
                                 : json.add_null("first_different_advantage");
    json.add("wall_s", r.wall_s).add("learned_wall_s", r.learned_wall_s).add("run_wall_s", r.run_wall_s);
    return console.print(json.text());
  }
  if (r.updates == 0) return console.print("nothing was learned in this run: there is nothing to make again");
  std::string text = "updates     " + std::to_string(r.first_update) + " to " +
                     std::to_string(r.last_update) + ", of " + std::to_string(r.episodes) +
                     " episodes\nparameters  " + r.parameters_sha256 + "\ntook        " +
                     format_seconds(r.wall_s) + ", the learner then " + format_seconds(r.learned_wall_s) +
                     (r.run_wall_s > 0 ? ", the run " + format_seconds(r.run_wall_s) : "") + "\n";
  if (r.identical) {
    text += "identical   every advantage, the parameters after every update, " +
            std::to_string(r.checkpoints) + (r.checkpoints == 1 ? " checkpoint" : " checkpoints");
  } else {
    text += "different   ";
    if (r.first_difference)
      text += "parameters from update " + std::to_string(*r.first_difference) + " on, by " +
              std::to_string(r.largest_difference) + " at most at a checkpoint";
    if (r.first_advantage_difference)
      text += std::string{r.first_difference ? "; " : ""} + "advantages from episode " +
              std::to_string(*r.first_advantage_difference) + " on";
  }
  console.print(text);
}

}  // namespace

std::unique_ptr<Command> make_replay() { return std::make_unique<Replay>(); }

}  // namespace emplace::launcher
