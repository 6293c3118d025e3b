#pragma once
/// How placements lie in the run database: as runs of ops on one device, of each placement itself or of what
/// differs from the one before it; as a zstd frame where that would not be short.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// `placements` [count, ops], one byte per op. Layout (docs/reference/run_database.md): "RL1", then per
/// placement a byte (0: itself, 1: XOR with the one before), the number of runs, and each run's value (a
/// byte) and length; numbers are LEB128, the first of all are count and ops. @pre count divides the size.
Bytes pack_placements(std::span<const std::byte> placements, std::size_t count);

/// What was packed, or compressed by zstd. `what` names it in errors. Errors (kInvalid): it is damaged.
Result<Bytes> unpack_placements(Bytes packed, std::string_view what);

}  // namespace emplace::record
