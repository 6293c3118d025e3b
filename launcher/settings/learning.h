#pragma once
/// From a config to how it scores.

#include "actors/scoring.h"
#include "launcher/settings/config.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

/// With what depends on the machine worked out.
actors::ScoringOptions scoring_options(const RunConfig& config, const DeviceSet& devices);

}  // namespace emplace::launcher
