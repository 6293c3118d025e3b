#pragma once
/// `emplace run`: starts the head for each start of a config, shows how it goes, brings it back if it dies,
/// and sums up.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

struct RunRequest {
  std::filesystem::path config;
  std::vector<std::string> settings;  ///< "section.key=value"
  std::string run_dir;                ///< Empty: the config's, or runs/NAME-TIME.
  bool resume = false;
  std::optional<double> budget_s;
  std::optional<std::uint64_t> episodes, seed;
  bool json = false, quiet = false;
};

/// Returns the exit status: 0, or 130 / 143 after a clean end by a signal. The summary goes to standard
/// output (one JSON object with `json`), progress to standard error. Errors: kInvalid, kIo before the start;
/// kNoPlacement if nothing that fits was found; kRunFailed.
Result<int> run(const RunRequest& request);

}  // namespace emplace::launcher
