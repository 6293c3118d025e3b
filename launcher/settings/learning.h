#pragma once
/// From a config to how it scores and how it learns.

#include "actors/scoring.h"
#include "launcher/settings/config.h"
#include "placement/machine/device.h"
#include "policy/training/trainer.h"

namespace emplace::launcher {

actors::ScoringOptions scoring_options(const RunConfig& config, const DeviceSet& devices);
policy::TrainerOptions trainer_options(const RunConfig& config);

}  // namespace emplace::launcher
