#pragma once
/// From a config to how it scores and how it learns.

#include "actors/scoring.h"
#include "actors/trainer.h"
#include "launcher/run/config.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

actors::ScoringOptions scoring_options(const RunConfig& config, const DeviceSet& devices);
actors::TrainerOptions trainer_options(const RunConfig& config);

}  // namespace emplace::launcher
