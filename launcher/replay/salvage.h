#pragma once
/// Recovers a damaged run.

#include <filesystem>

#include "base/result.h"
#include "record/salvage.h"

namespace emplace::launcher {

/// Runs record::salvage(), and writes the files that `emplace run --resume` and `report` need: the recorded
/// config, and the heuristic and best placements of `run`. Errors: those of record::salvage().
Result<record::Salvaged> salvage_run(const std::filesystem::path& run,
                                     const std::filesystem::path& directory);

}  // namespace emplace::launcher
