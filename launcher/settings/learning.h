#pragma once
/// The scoring options of a config.

#include "actors/scoring.h"
#include "actors/task.h"
#include "launcher/settings/config.h"

namespace emplace::launcher {

/// Returns the config's scoring options with what depends on the machines of the task resolved.
actors::ScoringOptions scoring_options(const RunConfig& config, const actors::Task& task);

}  // namespace emplace::launcher
