#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "record/report/moves.h"
#include "record/report/page_budget.h"
#include "record/report/report_data.h"

namespace emplace::record {

/// A graph as the page's script reads it. `moves` is set where there is a baseline to compare with.
nlohmann::json graph_json(const ReportGraph& graph, BudgetShares& shares, std::optional<Moves>& moves);

}  // namespace emplace::record
