#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "record/report/moves.h"
#include "record/report/report_data.h"

namespace emplace::record {

/// The section of one graph as HTML; its charts are empty until the script fills them. `number`: index among
/// the graphs of `data`. `moves`: empty without a heuristic to compare with.
std::string graph_section(const ReportGraph& graph, std::size_t number, const ReportData& data,
                          const std::optional<Moves>& moves);

/// The section of the policies: their entropy by tenths of the updates, and what saturated. Empty without
/// policies.
std::string policy_section(const ReportData& data);

/// The provenance section: facts, config, licences.
std::string provenance_section(const ReportData& data);

}  // namespace emplace::record
