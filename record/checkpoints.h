#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "record/store/run_rows.h"

namespace emplace::record {

struct RunConnection;

/// The stored checkpoints of a run. A view of an open run (record/run_reader.h).
class Checkpoints {
 public:
  explicit Checkpoints(RunConnection& connection) : connection_{&connection} {}
  Result<std::vector<std::uint64_t>> updates() const;  ///< Updates with a checkpoint, ascending.
  /// The newest checkpoint after at most `at_most` updates; the oldest if all are newer.
  Result<std::optional<CheckpointRow>> latest(
      std::uint64_t at_most = std::numeric_limits<std::int64_t>::max()) const;

 private:
  RunConnection* connection_;
};

/// Which checkpoints of a run are kept.
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
