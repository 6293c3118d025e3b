#pragma once
/// The scoring options of a config.

#include "actors/scoring.h"
#include "launcher/settings/config.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

/// Returns the config's scoring options with the penalties that depend on the machine resolved.
actors::ScoringOptions scoring_options(const RunConfig& config, const DeviceSet& devices);

}  // namespace emplace::launcher
