#pragma once
/// A damaged run, made usable again.

#include <filesystem>

#include "base/result.h"
#include "record/salvage.h"

namespace emplace::launcher {

/// record::salvage(), and beside it the files that `emplace run --resume` and `report` need: the config as
/// recorded, and of `run` the placements that it began with and the best ones. Errors: as record::salvage().
Result<record::Salvaged> salvage_run(const std::filesystem::path& run,
                                     const std::filesystem::path& directory);

}  // namespace emplace::launcher
