#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "placement/table.h"
#include "record/report/learning_curve.h"
#include "record/report/report_data.h"

namespace emplace::record {

/// The conclusion from a graph's rows, as text.
struct ReportVerdict {
  enum class Kind : std::uint8_t { kBetter, kNotBetter, kNoHeuristic, kNothingFits, kNothingYet };
  Kind kind = Kind::kNothingYet;
  std::string best_method;  ///< Method of the recommended placement; empty: none.
  double best_s = 0;
  std::string heuristic_method;  ///< The best feasible heuristic; empty: none.
  double heuristic_s = 0;
  std::string sentence;  ///< "431.4 ms per step: 29 % less than the best heuristic, …"
};
/// Pure; any thread.
ReportVerdict verdict_of(const ReportGraph& graph, bool in_progress);

/// True if its placement fits.
bool fits(const TableRow& row);
/// The fastest feasible row; null: none.
const TableRow* fastest(const std::vector<TableRow>& rows);
/// Number of measured placements over all starts.
std::uint64_t measured_in(const std::vector<LearningCurve>& curves);

}  // namespace emplace::record
