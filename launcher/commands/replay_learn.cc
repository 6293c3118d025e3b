#include "launcher/commands/replay_learn.h"
#include "launcher/terminal/progress_view.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/stop_signal.h"

namespace emplace::launcher {
namespace {

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

}  // namespace

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

}  // namespace emplace::launcher
