#pragma once
/// What must hold for a run's database after any faults, and which files may be left in its folder.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace emplace::testing {

struct History {
  std::uint64_t episodes = 0, updates = 0, consumed = 0;
  /// Numbers below a controller's highest that are missing. A killed controller may leave some.
  std::uint64_t missing_episodes = 0;
  std::vector<std::string> violations;  ///< One sentence each; empty: the history is sound.
};

/// Reads run.db: hashes as chained, sequence numbers without gaps, each episode and placement once and whole,
/// updates without gaps, each episode consumed at most once and only after it was committed.
History check_history(const std::filesystem::path& directory, std::uint32_t controllers);

/// Files of a run's folder that a finished run does not have: sockets, temporary files.
std::vector<std::string> leftover_files(const std::filesystem::path& directory);

}  // namespace emplace::testing
