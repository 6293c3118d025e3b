#pragma once
/// Which checkpoints of a run are kept.

#include <cstdint>
#include <span>
#include <vector>

namespace emplace::record {

struct CheckpointKeeping {
  std::uint64_t every = 0;   ///< Those after a multiple of so many updates; 0: all.
  std::uint64_t recent = 0;  ///< Those after one of the last so many updates, and the one before them.
  /// Of the policy that drew the best placement so far: the checkpoint nearest before it.
  std::uint64_t best_version = 0;
};

/// Of the checkpoints after these updates (rising) those that may go. The first and the last two stay.
std::vector<std::uint64_t> superfluous_checkpoints(std::span<const std::uint64_t> updates,
                                                   const CheckpointKeeping& keeping);

}  // namespace emplace::record
