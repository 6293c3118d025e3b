#include <fmt/core.h>
#include <poll.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/commands/commands.h"
#include "launcher/placing/results.h"
#include "launcher/replay/learn_from_log.h"
#include "launcher/replay/remeasure.h"
#include "launcher/replay/replay.h"
#include "launcher/settings/start.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/progress_view.h"
#include "launcher/terminal/stop_signal.h"
#include "record/salvage.h"

namespace emplace::launcher {
namespace {

/// Default of --count.
constexpr std::uint64_t kCount = 200;

std::string learned_json(const LearnReport& r) {
  return json_text(Json{{"method", r.method},
                        {"run_dir", r.directory.string()},
                        {"episodes", r.episodes},
                        {"placements", r.placements},
                        {"learned", r.learned},
                        {"refused", r.refused},
                        {"first_refusal", text_or_null(r.first_refusal)},
                        {"passes", r.passes},
                        {"updates", r.updates},
                        {"mean_weight", r.mean_weight},
                        {"effective_share", r.effective_share},
                        {"parameters_sha256", r.parameters_sha256},
                        {"step_time_s", r.likeliest_valid ? r.likeliest_step_time_s : kJsonNull},
                        {"valid", r.likeliest_valid},
                        {"log_best_step_time_s", r.log_best_s > 0 ? r.log_best_s : kJsonNull},
                        {"log_mean_step_time_s", r.log_mean_s > 0 ? r.log_mean_s : kJsonNull},
                        {"wall_s", r.wall_s}});
}

std::string learned_text(const LearnReport& r) {
  std::string text =
      fmt::format("learned     {}: {} updates of {} placements", r.method, r.updates, r.learned);
  if (r.passes > 1) text += fmt::format(", {} times", r.passes);
  text += ", in " + format_seconds(r.wall_s) + "\n";
  if (r.refused > 0)
    text += fmt::format("refused     {} of {} placements: {}\n", r.refused, r.placements, r.first_refusal);
  text += fmt::format("weights     mean importance weight {:.3g}; effective sample size {:.3g} %\n",
                      r.mean_weight, 100 * r.effective_share);
  text += "likeliest   " + (r.likeliest_valid ? format_seconds(r.likeliest_step_time_s)
                                              : format_bytes(r.likeliest_bytes_over) + " too large");
  text += r.log_best_s > 0
              ? "; best in the log " + format_seconds(r.log_best_s) + ", mean " + format_seconds(r.log_mean_s)
              : "; the log has no feasible placement";
  return text + "\nparameters  " + r.parameters_sha256 + "\npolicy      " + printable_path(r.directory);
}

/// Learns from the log, shows progress and prints the report. Errors: those of learn_from_log().
Result<ExitStatus> learn_and_print(Console& console, RecordedRun& run, const LearnFromLogRequest& request) {
  const SystemClock clock;
  const StopSignal stop;
  ProgressView view{console, clock};
  const auto report = learn_from_log(run, request, clock, [&](const LearnProgress& now) {
    view.show([&] {
      std::string details = fmt::format("{} updates", now.updates);
      if (now.passes > 1) details += fmt::format("  pass {} of {}", now.pass, now.passes);
      return ProgressFacts{.activity = fmt::format("episode {} of {}", now.seq, now.last_seq),
                           .has_best = false,
                           .details = std::move(details)};
    });
    return stop.received() == 0;
  });
  view.clear();
  if (!report) return report.error();
  if (report->stopped) return stopped_by(stop.received());
  console.print(console.json() ? learned_json(*report) : learned_text(*report));
  return ExitStatus::kDone;
}

/// Runs record::salvage(), and writes the files that `emplace run --resume` and `report` need: the recorded
/// config, and the heuristic and best placements of `run`. Errors: those of record::salvage().
Result<record::Salvaged> salvage_run(const std::filesystem::path& run,
                                     const std::filesystem::path& directory) {
  auto salvaged = record::salvage(run, directory);
  if (!salvaged) return salvaged;
  std::error_code failure;
  if (auto kept = write_file(directory / "config.toml", salvaged->facts.config_toml); !kept) {
    for (const auto& entry : std::filesystem::directory_iterator{directory, failure})
      std::filesystem::remove_all(entry.path(), failure);
    return kept.error();
  }
  std::filesystem::create_directory(directory / "log", failure);
  for (const char* name :
       {"cluster.toml", "best.placement.json", "best", "baseline", "baseline.placement.json"}) {
    if (!std::filesystem::exists(run / name, failure)) continue;
    std::filesystem::copy(run / name, directory / name, std::filesystem::copy_options::recursive, failure);
    if (failure) salvaged->missing.push_back(std::string{name} + ": " + failure.message());
  }
  return salvaged;
}

class Replay final : public Command {
 public:
  Replay()
      : Command{"replay",
                "Repeat a run's updates from its log bit for bit, learn another policy from it, or measure "
                "it again",
                "emplace replay runs/nmt --verify"} {}
  void declare(Options& options) override {
    options.operand("RUN", run_dir_, "Run directory, or the folder in it of a further start")
        .flag("--verify", verify_, "Compare parameters and advantages with the log; exit 4 if they differ")
        .option("--learn", learn_.method, "Learn a policy of this method from the log (default: none)")
        .repeated("--set", learn_.settings, "With --learn: KEY=VALUE overrides a key of the method's config")
        .option("--passes", learn_.passes, "With --learn: passes over the log")
        .option("--run-dir", learn_dir_,
                "With --learn: directory of the new policy (default: RUN/learned-METHOD)")
        .option("--from", from_, "First episode to replay (episodes.seq)")
        .option("--to", to_, "Last episode that an update may use; 0: the last of the log")
        .option("--re-measure", remeasure_, "Measure the log's placements again with this kind of executor")
        .option("--model", model_,
                "With --re-measure torch: MODULE:NAME of the function that makes the model (default: none)")
        .option("--count", count_,
                "With --re-measure: placements at most, the fastest fifth and others from fast to slow")
        .non_empty("--devices,-d", devices_,
                   "With --re-measure: machine, as for emplace place (default: the devices of the run)")
        .option("--dispatch", dispatch_,
                "With --re-measure sim: order in which a device runs ready ops, program or fifo")
        .option("--salvage", salvage_dir_,
                "Write the intact part of a damaged record into this new folder, as a run of its own")
        .option("--speed", speed_,
                "Replay speed relative to the run, e.g. 1 or 10 (default: as fast as possible)");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<Unit> check_combination() const;
  Result<double> speed() const;
  Result<ExitStatus> replay_updates(Console& console, RecordedRun& run) const;
  Result<ExitStatus> measure_again(Console& console, RecordedRun& run) const;
  Result<ExitStatus> salvage(Console& console) const;
  void print(Console& console, const ReplayReport& report) const;

  std::string run_dir_, speed_, remeasure_, model_, devices_, dispatch_ = "program";
  bool verify_ = false;
  std::uint64_t from_ = 0, to_ = 0, count_ = kCount;
  LearnFromLogRequest learn_;
  std::string learn_dir_, salvage_dir_;
};

/// Sleeps for `left`, or until a signal arrives.
void wait_for(Nanos left, const StopSignal& stop) {
  for (; left.count() > 0 && stop.received() == 0; left -= std::chrono::milliseconds{20})
    ::poll(nullptr, 0, left < std::chrono::milliseconds{20} ? 1 : 20);
}

/// Rejects options that the chosen kind of replay would ignore.
Result<Unit> Replay::check_combination() const {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
  if (from_ > kMax || to_ > kMax)
    return invalid("--from, --to", "are out of range", "give episode numbers of the log");
  const bool again = !remeasure_.empty();
  if (!model_.empty() && remeasure_ != "torch")
    return invalid("--model", "needs --re-measure torch", "add it, or remove --model");
  if (again && !speed_.empty()) return invalid("--speed", "conflicts with --re-measure", "remove --speed");
  if (!again && (!devices_.empty() || dispatch_ != "program" || count_ != kCount))
    return invalid("--devices, --dispatch and --count", "need --re-measure", "add it, or remove them");
  const bool alone = !verify_ && !again && learn_.method.empty() && from_ == 0 && to_ == 0 && speed_.empty();
  if (!salvage_dir_.empty() && !alone)
    return invalid("--salvage", "conflicts with the other options",
                   "salvage first, then replay the folder that it wrote");
  return Unit{};
}

Result<double> Replay::speed() const {
  if (speed_.empty()) return 0.0;
  char* end = nullptr;
  const double speed = std::strtod(speed_.c_str(), &end);
  if (*end != '\0' || !std::isfinite(speed) || speed < 1e-3)
    return invalid("--speed " + printable(speed_), "is not a speed of at least 0.001",
                   "use 1 for the speed of the run, 10 for ten times that");
  return speed;
}

Result<ExitStatus> Replay::run(Console& console) {
  if (to_ != 0 && to_ < from_) return invalid("--to", "is before --from");
  EMPLACE_TRY(check_combination());
  if (verify_ && !remeasure_.empty())
    return invalid("--verify", "conflicts with --re-measure", "remove one of them");
  if (!learn_.method.empty() && (verify_ || !remeasure_.empty()))
    return invalid("--learn", "conflicts with --verify and --re-measure", "remove them");
  if (!salvage_dir_.empty()) return salvage(console);
  EMPLACE_TRY_ASSIGN(auto run, open_recorded_run(run_dir_));
  if (!learn_.method.empty()) {
    learn_.from = from_;
    learn_.to = to_;
    learn_.directory = learn_dir_;
    learn_.warn = [&console](const std::string& text) { console.warn(text); };
    return learn_and_print(console, run, learn_);
  }
  return remeasure_.empty() ? replay_updates(console, run) : measure_again(console, run);
}

Result<ExitStatus> Replay::replay_updates(Console& console, RecordedRun& run) const {
  EMPLACE_TRY_ASSIGN(const auto speed, this->speed());
  const SystemClock clock;
  const StopSignal stop;
  ProgressView view{console, clock};
  const Nanos started = clock.now();
  std::int64_t first_ns = 0;
  const auto report = replay(run, {from_, to_}, clock, [&](const ReplayedUpdate& now) {
    if (speed > 0 && now.wall_ns > 0) {
      if (first_ns == 0) first_ns = now.wall_ns;
      const Nanos due{static_cast<std::int64_t>(static_cast<double>(now.wall_ns - first_ns) / speed)};
      wait_for(due - (clock.now() - started), stop);
    }
    view.show([&] {
      return ProgressFacts{.activity = fmt::format("update {} of {}", now.update, now.updates),
                           .best_s = now.best_step_time_s};
    });
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
  console.print(text + "written     as a run of its own to " + printable(salvage_dir_));
  return ExitStatus::kDone;
}

std::string share(double number) {
  return std::isfinite(number) ? fmt::format("{:.1f} %", number * 100) : "-";
}
std::string correlation(double number) { return std::isfinite(number) ? fmt::format("{:.4f}", number) : "-"; }

/// Returns the `most` rows that differ most from the log, worst first; unmeasurable placements come first.
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
      "median {}, 95th percentile {}, largest {}\ntop 5       {} of the log's five fastest are among the "
      "five "
      "fastest again\n",
      r.rows.size(), r.distinct, s.executor_kind, s.count, correlation(s.spearman), correlation(s.kendall),
      share(s.error_mean), share(s.error_median), share(s.error_p95), share(s.error_max), s.top5_overlap);
  for (const record::RemeasuredRow& row : worst_of(r.rows, 5))
    text += fmt::format("worst       placement {}: {} in the log, {}\n", row.placement_id,
                        format_seconds(row.logged_s),
                        row.valid ? format_seconds(row.step_time_s) : printable(row.error, 80));
  return fmt::format("{}recorded    as session {} of the run", text, s.session);
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
    one["step_time_s"] = row.valid ? row.step_time_s : kJsonNull;
    if (!row.error.empty()) one["reason"] = row.error;
  }
  json["worst"] = std::move(worst);
  return json;
}

Result<ExitStatus> Replay::measure_again(Console& console, RecordedRun& run) const {
  const SystemClock clock;
  const StopSignal stop;
  ProgressView view{console, clock};
  const std::int64_t started = clock.wall().count();
  RemeasureRequest request{remeasure_, devices_, dispatch_, count_, from_, to_};
  request.process = process_request_of(run.config);
  request.process.chaos.clear();
  request.process.model = model_;
  request.process.interrupted = [&] { return stop.received() != 0; };
  auto remeasured = remeasure(run, request, [&](std::uint64_t done, std::uint64_t of) {
    view.show([&] {
      return ProgressFacts{.activity = fmt::format("{}: {} of {} placements", remeasure_, done, of),
                           .has_best = false};
    });
    return stop.received() == 0;
  });
  view.clear();
  if (stop.received() != 0) return stopped_by(stop.received());
  if (!remeasured) return remeasured.error();
  remeasured->session.started_wall_ns = started;
  run.db.reset();  // Close the reader before writing.
  EMPLACE_TRY(keep_remeasured(run.directory, *remeasured));
  console.print(console.json() ? json_text(remeasured_json(*remeasured)) : remeasured_text(*remeasured));
  return ExitStatus::kDone;
}

void Replay::print(Console& console, const ReplayReport& r) const {
  if (console.json()) return console.print(json_text(fields_json(r)));
  if (r.updates == 0) return console.print("nothing to replay: the run has no updates");
  std::string text = fmt::format(
      "updates     {} to {}, of {} episodes\nparameters  {}\ntook        {} (updates alone {}); in the run "
      "the "
      "learner took {}{}\n",
      r.first_update, r.last_update, r.episodes, r.parameters_sha256, format_seconds(r.wall_s),
      format_seconds(r.update_s), format_seconds(r.learned_wall_s),
      r.run_wall_s > 0 ? ", the whole run " + format_seconds(r.run_wall_s) : "");
  if (r.identical) {
    text += fmt::format("identical   all advantages, the parameters after every update, {}{}", r.checkpoints,
                        r.checkpoints == 1 ? " checkpoint" : " checkpoints");
  } else {
    text += "different   ";
    if (r.first_different_update)
      text += fmt::format("parameters from update {} on, by {:f} at most at a checkpoint",
                          *r.first_different_update, r.largest_difference);
    if (r.first_different_advantage)
      text += fmt::format("{}advantages from episode {} on", r.first_different_update ? "; " : "",
                          *r.first_different_advantage);
  }
  console.print(text);
}

}  // namespace

std::unique_ptr<Command> make_replay() { return std::make_unique<Replay>(); }

}  // namespace emplace::launcher
