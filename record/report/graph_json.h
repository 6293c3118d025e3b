#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "record/report/moves.h"
#include "record/report/page_budget.h"
#include "record/report/report_data.h"

namespace emplace::record {

/// A graph as JSON for the page's script. `moves` is set if there is a heuristic to compare with.
nlohmann::json graph_json(const ReportGraph& graph, BudgetShares& shares, std::optional<Moves>& moves);

}  // namespace emplace::record
