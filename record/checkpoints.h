#pragma once

#include <cstdint>
#include <limits>
#include <optional>
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

}  // namespace emplace::record
