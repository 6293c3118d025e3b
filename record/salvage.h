#pragma once
/// Copies the intact part of a damaged record into a new run.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "record/run_results.h"
#include "record/store/run_rows.h"

namespace emplace::record {

/// Result of a salvage.
struct Salvaged {
  RunFacts facts;                    ///< Facts of the new run.
  Counters counters;                 ///< Counters of the new run.
  std::uint64_t acknowledged = 0;    ///< Lower bound of the episodes that the damaged record had committed.
  std::vector<std::string> missing;  ///< One phrase per loss; empty: nothing was lost.
};

/// Creates in `directory` a new run with the valid prefix of `run`'s record: every episode before the first
/// damaged one; every update before the first one that is damaged or needs a later episode; the checkpoints
/// of these updates. Constant data (config, graphs, heuristics) comes from `initial.db` where it is damaged
/// in run.db. `run` is not changed. Errors: kInvalid if `run` is still being written, `directory` is not
/// empty, or nothing can be read; kIo. After an error `directory` is as before.
Result<Salvaged> salvage(const std::filesystem::path& run, const std::filesystem::path& directory);

}  // namespace emplace::record
