#include "launcher/session/run_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <system_error>

#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/inputs/inputs.h"
#include "launcher/session/recorded_starts.h"
#include "record/run_reader.h"

namespace emplace::launcher {
namespace {

/// Returns how far the closest placement was above the memory, for a run without a feasible placement.
std::string closest_miss(const RunSummary& summary) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Outcome& outcome : summary.outcomes) {
    const auto db = record::RunReader::open(outcome.start.directory, record::Reading::kQuietOrInProgress);
    const auto over =
        db ? (*db)->results().least_bytes_over() : Result<std::optional<std::int64_t>>{std::nullopt};
    if (over && *over) least = std::min(least, **over);
  }
  if (least == std::numeric_limits<std::int64_t>::max()) return "";
  return "; the closest was " + format_bytes(least) + " over";
}

/// Returns the number of measurements whose episodes more than one update consumed.
Result<std::uint64_t> consumed_twice(const record::RunLog& log,
                                     const std::vector<record::UpdateRow>& updates) {
  std::uint64_t measurements = 0;
  std::set<std::uint64_t> consumed;
  for (const record::UpdateRow& update : updates) {
    for (const std::uint64_t episode : update.episodes) {
      if (consumed.insert(episode).second) continue;
      EMPLACE_TRY_ASSIGN(const auto row, log.row_of(episode, false));
      measurements += row ? row->episode.count : 1;
    }
  }
  return measurements;
}

}  // namespace

Result<Unit> summarise(Outcome& outcome, const RunConfig& config, const actors::Task& task) {
  EMPLACE_TRY_ASSIGN(auto db,
                     record::RunReader::open(outcome.start.directory, record::Reading::kQuietOrInProgress));
  const auto counters = db->results().counters();
  const auto updates = db->log().updates();
  EMPLACE_TRY_ASSIGN(outcome.learning, learning_of(*db, config));
  if (!counters || !updates) return Error{Errc::kIo, "run.db cannot be read"};
  outcome.counters = *counters;
  if (!updates->empty()) outcome.parameters_sha256 = updates->back().parameters_sha256;
  EMPLACE_TRY_ASSIGN(const std::uint64_t recorded, consumed_twice(db->log(), *updates));
  outcome.duplicated = std::max(outcome.progress.duplicated, recorded);
  for (const actors::TaskGraph& one : task.graphs) {
    TableRow& row = outcome.rows.emplace_back();
    row.method = label_of(config, outcome.start);
    row.evaluations = counters->measurements;
    row.wall_s = outcome.wall_s;
    row.note = "no feasible placement";
    EMPLACE_TRY_ASSIGN(const auto best, db->results().best(one.sha256));
    if (!best) continue;
    const Placement placement = record::placement_of(best->placement);
    EMPLACE_TRY_ASSIGN(auto measured, model_of(config, one)->decide(placement));
    fill_in(row, std::move(measured));
    row.found = true;
    if (best->label == MeasurementLabel::kSimulated) {
      row.costs = PlacementCosts{one.graph, one.devices}.of(placement);
      continue;
    }
    // Real devices: show the recorded measurement instead of the simulated one.
    row.measurement.valid = true;
    row.measurement.step_time_s = best->step_time_s;
    row.measurement.peak_bytes = best->peak_bytes;
    row.measurement.bytes_moved = best->bytes_moved;
    row.measurement.label = best->label;
  }
  return Unit{};
}

Result<Unit> recommend(RunSummary& summary, const RunConfig& config, const Clock& clock) {
  for (std::size_t g = 0; g < summary.task->graphs.size(); ++g) {
    const actors::TaskGraph& one = summary.task->graphs[g];
    const Heuristics& heuristics = summary.heuristics[g];
    Recommendation& best = summary.recommended.emplace_back();
    if (heuristics.best) {
      const TableRow& row = heuristics.rows[*heuristics.best];
      best = {row.method, row.measurement.step_time_s, row.costs, {}};
    }
    std::filesystem::path learned;
    for (const Outcome& outcome : summary.outcomes) {
      const TableRow& row = outcome.rows[g];
      if (row.found && row.measurement.label != MeasurementLabel::kSimulated) {
        best = {};  // Times of real devices and of simulated heuristics are not comparable.
        break;
      }
      if (!row.found || !row.measurement.valid) continue;
      if (!best.method.empty() && row.measurement.step_time_s >= best.step_time_s) continue;
      learned = kept_path(outcome.start.directory, kBestPlacement, *summary.task, one);
      best = {row.method, row.measurement.step_time_s, row.costs, {}};
    }
    if (best.method.empty()) continue;
    best.file = kept_path(summary.directory, kRecommendedPlacement, *summary.task, one);
    if (learned.empty()) {
      EMPLACE_TRY(keep_placement(best.file, config, one, heuristics.placements[*heuristics.best], best.method,
                                 clock));
    } else {
      std::error_code error;
      std::filesystem::create_directories(best.file.parent_path(), error);
      EMPLACE_TRY_ASSIGN(const Bytes bytes, read_file(learned));
      EMPLACE_TRY(write_file(best.file, bytes));
    }
  }
  return Unit{};
}

std::string summary_text(const RunSummary& summary) {
  std::string text;
  for (std::size_t g = 0; g < summary.task->graphs.size(); ++g) {
    const actors::TaskGraph& one = summary.task->graphs[g];
    const Heuristics& heuristics = summary.heuristics[g];
    std::vector<TableRow> rows = heuristics.rows;
    for (const Outcome& outcome : summary.outcomes) rows.push_back(outcome.rows[g]);
    if (summary.task->graphs.size() > 1) text += "\n" + printable(one.graph.name());
    text += "\n" + render_table(rows, heuristics.bound.seconds, one.devices.names());
    const auto comparable = [](const TableRow& row) {
      return row.found && row.measurement.label == MeasurementLabel::kSimulated;
    };
    for (const Outcome& outcome : summary.outcomes) {
      const TableRow& row = outcome.rows[g];
      if (comparable(row) && heuristics.best &&
          row.measurement.step_time_s >= heuristics.best_step_time_s()) {
        text += row.method + " did not beat " + heuristics.rows[*heuristics.best].method + "\n";
      }
    }
    if (const Recommendation& best = summary.recommended[g]; !best.method.empty())
      text += fmt::format("best placement: {} ({}), in {}\n", best.method,
                          step_text(best.step_time_s, best.costs), printable_path(best.file));
  }
  if (summary.status != 0) {
    std::uint64_t episodes = 0;
    for (const Outcome& outcome : summary.outcomes) episodes += outcome.counters.episodes;
    text += fmt::format(
        "interrupted: {} episodes are recorded; continue with: emplace run --run-dir {} --resume\n", episodes,
        printable_path(summary.directory));
  }
  return text + "results: " + printable_path(summary.directory) + "\n";
}

Result<Unit> check_found(const RunSummary& summary) {
  const bool any = std::any_of(summary.outcomes.begin(), summary.outcomes.end(), [](const Outcome& outcome) {
    return std::any_of(outcome.rows.begin(), outcome.rows.end(),
                       [](const TableRow& row) { return row.found; });
  });
  if (summary.status != 0 || any) return Unit{};
  return Error{Errc::kNoPlacement, "no feasible placement was found" + closest_miss(summary) +
                                       "; increase the devices' memory by at least that, or --budget"};
}

}  // namespace emplace::launcher
