#include <fmt/core.h>
#include <poll.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/replay_learn.h"
#include "launcher/commands/results.h"
#include "launcher/replay/remeasure.h"
#include "launcher/replay/replay.h"
#include "launcher/replay/salvage.h"
#include "launcher/session/stop_signal.h"
#include "launcher/settings/json_text.h"
#include "launcher/settings/start.h"

namespace emplace::launcher {
namespace {

/// Placements that are measured again unless it is said.
constexpr std::uint64_t kCount = 200;

class Replay final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Learn a run's log once more: to the same parameters, bit for bit, or into another policy";
  }
  void declare(Options& options) override {
    options.operand("RUN", run_dir_, "Run directory; a further start of it is a folder in it")
        .flag("--verify", verify_,
              "Hold parameters and advantages against the log's; exit 4 where they differ")
        .option("--learn", learn_.method, "Learn another policy from it: a method of emplace run")
        .repeated("--set", learn_.settings, "With --learn: KEY=VALUE over that method's config")
        .option("--passes", learn_.passes, "With --learn: how often the log is gone through")
        .option("--run-dir", learn_dir_, "With --learn: where the policy is kept; else RUN/learned-METHOD")
        .option("--from", from_, "Begin at this episode of the log (episodes.seq)")
        .option("--to", to_, "End before an update needs an episode after this one")
        .option("--re-measure", remeasure_, "Measure the log's placements by this kind of executor instead")
        .option("--count", count_, "Re-measured at most: the fastest fifth, and others from fast to slow")
        .option("--devices,-d", devices_, "Re-measured on this device file instead of the run's")
        .option("--dispatch", dispatch_, "Of a simulator: program or fifo")
        .option("--salvage", salvage_dir_,
                "Write what can be trusted of a damaged record into this new folder, as a run of its own")
        .option("--speed", speed_,
                "As fast as then (1), twice as fast (2), …; without it as fast as it goes");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<Unit> options_go_together() const;
  Result<double> speed() const;
  Result<ExitStatus> replay_updates(Console& console, LoggedRun& run) const;
  Result<ExitStatus> measure_again(Console& console, LoggedRun& run) const;
  Result<ExitStatus> salvage(Console& console) const;
  void print(Console& console, const ReplayReport& report) const;

  std::string run_dir_, speed_, remeasure_, devices_, dispatch_ = "program";
  bool verify_ = false;
  std::uint64_t from_ = 0, to_ = 0, count_ = kCount;
  LearnFromLogRequest learn_;
  std::string learn_dir_, salvage_dir_;
};

/// A while, or until a signal comes.
void wait_for(Nanos while_, const StopSignal& stop) {
  for (; while_.count() > 0 && stop.received() == 0; while_ -= std::chrono::milliseconds{20})
    ::poll(nullptr, 0, while_ < std::chrono::milliseconds{20} ? 1 : 20);
}

/// What only one kind of replay heeds is not taken by another in silence.
Result<Unit> Replay::options_go_together() const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (from_ > kMost || to_ > kMost) return invalid("--from, --to", "are log numbers", "no log is so long");
  const bool again = !remeasure_.empty();
  if (again && !speed_.empty()) return invalid("--speed", "is of a replay", "leave it out with --re-measure");
  if (!again && (!devices_.empty() || dispatch_ != "program" || count_ != kCount))
    return invalid("--devices, --dispatch and --count", "go with --re-measure", "add it, or leave them out");
  const bool alone = !verify_ && !again && learn_.method.empty() && from_ == 0 && to_ == 0 && speed_.empty();
  if (!salvage_dir_.empty() && !alone)
    return invalid("--salvage", "replays nothing", "salvage first, then replay the folder that it wrote");
  return Unit{};
}

Result<double> Replay::speed() const {
  if (speed_.empty()) return 0.0;
  char* end = nullptr;
  const double speed = std::strtod(speed_.c_str(), &end);
  if (*end != '\0' || !std::isfinite(speed) || speed < 1e-3)
    return invalid("--speed " + printable(speed_), "is no speed",
                   "1 is as fast as the run was, 10 ten times");
  return speed;
}

Result<ExitStatus> Replay::run(Console& console) {
  if (to_ != 0 && to_ < from_) return invalid("--to", "lies before --from");
  EMPLACE_TRY(options_go_together());
  if (verify_ && !remeasure_.empty()) return invalid("--verify", "measures nothing", "leave one of both out");
  if (!learn_.method.empty() && (verify_ || !remeasure_.empty()))
    return invalid("--learn", "makes another policy", "leave --verify and --re-measure out");
  if (!salvage_dir_.empty()) return salvage(console);
  EMPLACE_TRY_ASSIGN(auto run, open_logged_run(run_dir_));
  if (!learn_.method.empty()) {
    learn_.from = from_;
    learn_.to = to_;
    learn_.directory = learn_dir_;
    learn_.warn = [&console](const std::string& text) { console.warn(text); };
    return learn_and_print(console, run, learn_);
  }
  return remeasure_.empty() ? replay_updates(console, run) : measure_again(console, run);
}

Result<ExitStatus> Replay::replay_updates(Console& console, LoggedRun& run) const {
  EMPLACE_TRY_ASSIGN(const auto speed, this->speed());
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  const Nanos began = clock.now();
  std::int64_t first_ns = 0;
  const auto report = replay(run, {from_, to_}, clock, [&](const ReplayedUpdate& now) {
    if (speed > 0 && now.wall_ns > 0) {
      if (first_ns == 0) first_ns = now.wall_ns;
      const Nanos due{static_cast<std::int64_t>(static_cast<double>(now.wall_ns - first_ns) / speed)};
      wait_for(due - (clock.now() - began), stop);
    }
    if (view.due()) {
      const std::string line = fmt::format(
          "update {} of {}{}", now.update, now.updates,
          now.best_step_time_s > 0 ? ", best so far " + format_seconds(now.best_step_time_s) : "");
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
                                       run.facts.software_version + " recorded on " +
                                       printable(run.facts.host)};
  return ExitStatus::kDone;
}

Result<ExitStatus> Replay::salvage(Console& console) const {
  EMPLACE_TRY_ASSIGN(const auto salvaged, salvage_run(run_dir_, salvage_dir_));
  const record::Counters& c = salvaged.counters;
  if (console.json()) {
    const Json json{{"run_dir", salvage_dir_},        {"whole", salvaged.missing.empty()},
                    {"episodes", c.episodes},         {"acknowledged", salvaged.acknowledged},
                    {"measurements", c.measurements}, {"updates", c.updates},
                    {"checkpoints", c.checkpoints},   {"missing", salvaged.missing}};
    console.print(json_text(json));
    return ExitStatus::kDone;
  }
  std::string text = fmt::format("salvaged    {} episodes, {} measurements, {} updates, {} checkpoints\n",
                                 c.episodes, c.measurements, c.updates, c.checkpoints);
  for (const std::string& loss : salvaged.missing) text += "missing     " + loss + "\n";
  if (salvaged.missing.empty()) text += "missing     nothing\n";
  console.print(text + "kept        as a run of its own in " + printable(salvage_dir_));
  return ExitStatus::kDone;
}

std::string share(double number) {
  return std::isfinite(number) ? fmt::format("{:.1f} %", number * 100) : "-";
}
std::string correlation(double number) { return std::isfinite(number) ? fmt::format("{:.4f}", number) : "-"; }

/// Those that are furthest from the log, the worst first; what could not be measured before all.
std::vector<record::RemeasuredRow> worst_of(std::vector<record::RemeasuredRow> rows, std::size_t most) {
  const auto apart = [](const record::RemeasuredRow& row) {
    return row.valid ? std::abs(row.step_time_s / row.logged_s - 1) : INFINITY;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return apart(a) > apart(b); });
  rows.resize(std::min(rows.size(), most));
  return rows;
}

std::string remeasured_text(const Remeasured& r) {
  const record::RemeasureSession& s = r.session;
  std::string text = fmt::format(
      "measured    {} of {} placements by {}, {} fit\nspearman    {}\nkendall     {}\nerror       mean {}, "
      "median {}, 95 of 100 below {}, largest {}\ntop 5       {} of the log's five fastest are so again\n",
      r.rows.size(), r.distinct, s.executor_kind, s.count, correlation(s.spearman), correlation(s.kendall),
      share(s.error_mean), share(s.error_median), share(s.error_p95), share(s.error_max), s.top5_overlap);
  for (const record::RemeasuredRow& row : worst_of(r.rows, 5))
    text += fmt::format("worst       placement {}: {} in the log, {}\n", row.placement_id,
                        format_seconds(row.logged_s),
                        row.valid ? format_seconds(row.step_time_s) : printable(row.error, 80));
  return fmt::format("{}kept        as session {} of the run", text, s.session);
}

Json remeasured_json(const Remeasured& r) {
  const record::RemeasureSession& s = r.session;
  const Json error{
      {"mean", s.error_mean}, {"median", s.error_median}, {"p95", s.error_p95}, {"max", s.error_max}};
  Json json{{"session", s.session},          {"executor", s.executor_kind}, {"host", s.host},
            {"distinct", r.distinct},        {"measured", r.rows.size()},   {"count", s.count},
            {"spearman", s.spearman},        {"kendall", s.kendall},        {"error", error},
            {"top5_overlap", s.top5_overlap}};
  auto worst = Json::array();
  for (const record::RemeasuredRow& row : worst_of(r.rows, 5)) {
    Json& one = worst.emplace_back();
    one["placement_id"] = row.placement_id;
    one["logged_s"] = row.logged_s;
    one["step_time_s"] = row.valid ? Json(row.step_time_s) : Json(nullptr);
    if (!row.error.empty()) one["reason"] = row.error;
  }
  json["worst"] = std::move(worst);
  return json;
}

Result<ExitStatus> Replay::measure_again(Console& console, LoggedRun& run) const {
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  const std::int64_t started = clock.wall().count();
  RemeasureRequest request{remeasure_, devices_, dispatch_, count_, from_, to_};
  request.process = process_request_of(run.config);
  request.process.chaos.clear();
  request.process.interrupted = [&] { return stop.received() != 0; };
  auto remeasured = remeasure(run, request, [&](std::uint64_t done, std::uint64_t of) {
    const std::string line = fmt::format("{}: {} of {} placements", remeasure_, done, of);
    if (view.due()) view.show(std::array{line}, line);
    return stop.received() == 0;
  });
  view.clear();
  if (stop.received() != 0) return stopped_by(stop.received());
  if (!remeasured) return remeasured.error();
  remeasured->session.started_wall_ns = started;
  run.db.reset();  // From here on it is written.
  EMPLACE_TRY(keep_remeasured(run.directory, *remeasured));
  console.print(console.json() ? json_text(remeasured_json(*remeasured)) : remeasured_text(*remeasured));
  return ExitStatus::kDone;
}

void Replay::print(Console& console, const ReplayReport& r) const {
  if (console.json()) {
    Json json{{"episodes", r.episodes},
              {"updates", r.updates},
              {"parameters_sha256", r.parameters_sha256},
              {"identical", r.identical},
              {"first_update", r.first_update},
              {"last_update", r.last_update},
              {"checkpoints", r.checkpoints},
              {"largest_difference", r.largest_difference}};
    json["first_different_update"] = r.first_difference ? Json(*r.first_difference) : Json(nullptr);
    json["first_different_advantage"] =
        r.first_advantage_difference ? Json(*r.first_advantage_difference) : Json(nullptr);
    json["wall_s"] = r.wall_s;
    json["update_s"] = r.update_s;
    json["learned_wall_s"] = r.learned_wall_s;
    json["run_wall_s"] = r.run_wall_s;
    return console.print(json_text(json));
  }
  if (r.updates == 0) return console.print("nothing was learned in this run: there is nothing to make again");
  std::string text = fmt::format(
      "updates     {} to {}, of {} episodes\nparameters  {}\ntook        {} (the updates alone {}), the "
      "learner then {}{}\n",
      r.first_update, r.last_update, r.episodes, r.parameters_sha256, format_seconds(r.wall_s),
      format_seconds(r.update_s), format_seconds(r.learned_wall_s),
      r.run_wall_s > 0 ? ", the run " + format_seconds(r.run_wall_s) : "");
  if (r.identical) {
    text += fmt::format("identical   every advantage, the parameters after every update, {}{}", r.checkpoints,
                        r.checkpoints == 1 ? " checkpoint" : " checkpoints");
  } else {
    text += "different   ";
    if (r.first_difference)
      text += fmt::format("parameters from update {} on, by {:f} at most at a checkpoint",
                          *r.first_difference, r.largest_difference);
    if (r.first_advantage_difference)
      text += fmt::format("{}advantages from episode {} on", r.first_difference ? "; " : "",
                          *r.first_advantage_difference);
  }
  console.print(text);
}

}  // namespace

std::unique_ptr<Command> make_replay() { return std::make_unique<Replay>(); }

}  // namespace emplace::launcher
