#pragma once
/// A simulated step and a collapsed graph as the page's script reads them: columns of whole numbers, times in
/// nanoseconds, each start as the gap to the end before it.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "placement/machine/device.h"
#include "record/report/report_data.h"
#include "record/report/scope_map.h"

namespace emplace::record {

/// How much of a step a page holds.
struct StepBudget {
  std::size_t blocks = 0;      ///< Ops and copies drawn one by one; if there are more, neighbours are merged.
  std::size_t name_bytes = 0;  ///< Names of ops after that many bytes are left out.
  std::size_t memory_levels = 0;  ///< By device: of more, the highest of each stretch.
};

/// Ops and copies of a step: what it takes to draw each by itself.
std::size_t blocks_of(const Schedule& schedule);

/// `budget.name_bytes` is reduced by what was used.
nlohmann::json step_json(const OpGraph& graph, const DeviceSet& devices, const ReportStep& step,
                         const ScopeMap& scopes, StepBudget& budget);

nlohmann::json scope_json(const ScopeMap& scopes);

}  // namespace emplace::record
