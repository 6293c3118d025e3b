#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "record/report/moves.h"
#include "record/report/report_data.h"

namespace emplace::record {

/// All that the page says of one graph, as HTML; its charts are empty until the script fills them. `number`
/// is its place among the graphs of `data`; `moves` is empty where there is no baseline to compare with.
std::string graph_section(const ReportGraph& graph, std::size_t number, const ReportData& data,
                          const std::optional<Moves>& moves);

/// What the page was made of: facts, config, licences.
std::string provenance_section(const ReportData& data);

}  // namespace emplace::record
