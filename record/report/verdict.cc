#include "record/report/verdict.h"

#include <fmt/core.h>

#include <cstddef>

#include "base/text/counts.h"
#include "base/text/words.h"
#include "record/report/html.h"

namespace emplace::record {
namespace {

/// The number of devices in use, and the names of idle ones; empty if unknown.
std::string devices_used(const Measurement& measured, const std::vector<std::string>& names) {
  if (measured.busy_s.empty()) return "";
  std::size_t used = 0;
  std::string idle;
  for (std::size_t d = 0; d < measured.busy_s.size() && d < names.size(); ++d) {
    if (measured.busy_s[d] > 0) {
      ++used;
    } else {
      idle += (idle.empty() ? "" : ", ") + names[d];
    }
  }
  return fmt::format(" It uses {} of {}{}", used, plural(names.size(), "device"),
                     idle.empty() ? "." : "; nothing runs on " + printable(idle) + ".");
}

}  // namespace

bool fits(const TableRow& row) { return row.found && row.measurement.valid; }

const TableRow* fastest(const std::vector<TableRow>& rows) {
  const TableRow* best = nullptr;
  for (const TableRow& row : rows)
    if (fits(row) && (best == nullptr || row.measurement.step_time_s < best->measurement.step_time_s))
      best = &row;
  return best;
}

std::uint64_t measured_in(const std::vector<LearningCurve>& curves) {
  std::uint64_t count = 0;
  for (const LearningCurve& curve : curves)
    if (!curve.points.empty()) count += curve.points.back().measurements;
  return count;
}

ReportVerdict verdict_of(const ReportGraph& graph, bool in_progress) {
  using Kind = ReportVerdict::Kind;
  ReportVerdict verdict;
  const TableRow* const learned = fastest(graph.learned);
  const TableRow* const heuristic = fastest(graph.heuristics);
  if (heuristic != nullptr)
    verdict.heuristic_method = heuristic->method, verdict.heuristic_s = heuristic->measurement.step_time_s;
  const bool better =
      learned != nullptr && (heuristic == nullptr || learned->measurement.step_time_s < verdict.heuristic_s);
  const TableRow* const best = better ? learned : heuristic;
  if (best == nullptr) {
    verdict.kind = in_progress || measured_in(graph.curves) == 0 ? Kind::kNothingYet : Kind::kNothingFits;
    verdict.sentence =
        verdict.kind == Kind::kNothingYet
            ? "No feasible placement has been measured yet, and no heuristic fits."
            : "No feasible placement was found: none of " + plural(measured_in(graph.curves), "placement") +
                  " measured fits, and no heuristic does. Increase the device memory or the run's budget.";
    return verdict;
  }
  verdict.best_method = best->method;
  verdict.best_s = best->measurement.step_time_s;
  verdict.kind = !better ? Kind::kNotBetter : heuristic == nullptr ? Kind::kNoHeuristic : Kind::kBetter;
  std::string& text = verdict.sentence;
  const std::string heuristic_words =
      printable(verdict.heuristic_method, 60) + " (" + seconds(verdict.heuristic_s) + ")";
  if (better) {
    text = seconds(verdict.best_s) + " per step, by " + printable(best->method, 60);
    text += heuristic == nullptr && graph.heuristics.empty() ? ": no heuristic is known"
            : heuristic == nullptr                           ? ": no heuristic fits"
                                   : ": " + percent(1 - verdict.best_s / verdict.heuristic_s) +
                                         " less than the best heuristic, " + heuristic_words;
  } else {
    text = learned == nullptr
               ? "The learned placement does not fit" + std::string{in_progress ? " yet" : ""}
               : "The learned placement takes " + seconds(learned->measurement.step_time_s) +
                     " per step and " +
                     (learned->measurement.step_time_s > verdict.heuristic_s ? "is slower than"
                                                                             : "is no faster than") +
                     " the best heuristic";
    text += ": use the heuristic's placement, " + heuristic_words;
  }
  if (graph.lower_bound_s > 0)
    text += "; " + percent(verdict.best_s / graph.lower_bound_s - 1) + " above the proven bound (" +
            seconds(graph.lower_bound_s) + (graph.bound.empty() ? "" : ", by " + graph.bound) + ")";
  text += "." + devices_used(best->measurement, graph.devices);
  return verdict;
}

}  // namespace emplace::record
