#pragma once
/// What can be trusted of a damaged record, as a run of its own.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "record/run_results.h"
#include "record/store/run_rows.h"

namespace emplace::record {

/// What was found, and what was not.
struct Salvaged {
  RunFacts facts;                    ///< Of the new run.
  Counters counters;                 ///< Of the new run.
  std::uint64_t acknowledged = 0;    ///< Episodes that the damaged record had committed at least.
  std::vector<std::string> missing;  ///< A phrase for each loss; empty: everything was there.
};

/// Copies into `directory` a new run with the valid prefix of `run`'s record: every episode before the first
/// one that is damaged, every update before the first one that is damaged or needs a later episode, and the
/// checkpoints of these. What is constant (config, graphs, baselines) is taken from `initial.db` where run.db
/// does not have it whole. `run` is not changed. Errors: kInvalid if `run` is still being written,
/// `directory` is not empty, or nothing can be read; kIo. After an error `directory` is as it was.
Result<Salvaged> salvage(const std::filesystem::path& run, const std::filesystem::path& directory);

}  // namespace emplace::record
