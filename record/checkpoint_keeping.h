#pragma once
/// Selects the checkpoints of a run that are kept.

#include <cstdint>
#include <span>
#include <vector>

namespace emplace::record {

struct CheckpointKeeping {
  std::uint64_t every = 0;   ///< Keep checkpoints at multiples of this many updates; 0: all.
  std::uint64_t recent = 0;  ///< Keep checkpoints of the last N updates, and the one before them.
  /// Policy version that drew the best placement so far; the nearest checkpoint at or before it is kept.
  std::uint64_t best_version = 0;
};

/// The checkpoints that may be deleted, out of those after these updates (ascending). The first and the
/// last two are always kept.
std::vector<std::uint64_t> superfluous_checkpoints(std::span<const std::uint64_t> updates,
                                                   const CheckpointKeeping& keeping);

}  // namespace emplace::record
