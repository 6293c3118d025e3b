#pragma once
/// A simulated step and a collapsed graph as JSON for the page's script: columns of integers, times in
/// nanoseconds, each start as the gap to the previous end.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "placement/machine/device.h"
#include "record/report/report_data.h"
#include "record/report/scope_map.h"

namespace emplace::record {

/// Limits on the data of one step in a page.
struct StepBudget {
  std::size_t blocks = 0;         ///< Ops and copies drawn one by one; with more, neighbours are merged.
  std::size_t name_bytes = 0;     ///< Bytes of op names; further names are dropped.
  std::size_t memory_levels = 0;  ///< Levels per device; with more, the highest of each stretch.
};

/// Number of ops and copies of a step, if each is drawn by itself.
std::size_t blocks_of(const Schedule& schedule);

/// Reduces `budget.name_bytes` by the bytes used.
nlohmann::json step_json(const OpGraph& graph, const DeviceSet& devices, const ReportStep& step,
                         const ScopeMap& scopes, StepBudget& budget);

nlohmann::json scope_json(const ScopeMap& scopes);

}  // namespace emplace::record
