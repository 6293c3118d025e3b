#pragma once

#include <nlohmann/json_fwd.hpp>

#include "placement/machine/cost_trust.h"

namespace emplace::launcher {

/// Returns the costs behind a step time: {version, sources: {measured, family, data-sheet, calibrated: shares
/// of the time in ops}, error: share of the step time}.
nlohmann::ordered_json costs_json(const StepCosts& costs);

}  // namespace emplace::launcher
