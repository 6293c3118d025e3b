#pragma once
/// The starts of a recorded run, opened for reading.

#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "record/run_reader.h"

namespace emplace::launcher {

/// One start of a run, from its database.
struct RecordedStart {
  Start start;
  std::unique_ptr<record::RunReader> db;
  record::RunFacts facts;
  bool in_progress = false;  ///< Whether it was being written when it was opened.
};

struct RecordedStarts {
  RunConfig config;
  /// The first start, in the run's own directory, then the other starts of the config that exist. Not empty.
  std::vector<RecordedStart> starts;
};

/// Returns how the policy learned by the record of a start. Errors: those of reading it.
Result<record::LearningSummary> learning_of(const record::RunReader& db, const RunConfig& config);

/// Opens the starts of a run without changing a file of it. Errors: kIo if there is no run or it cannot be
/// read; kInvalid if it is damaged or newer than this program.
Result<RecordedStarts> open_starts(const std::filesystem::path& directory);

}  // namespace emplace::launcher
