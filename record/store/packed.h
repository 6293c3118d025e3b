#pragma once
/// Encoding of placements in the run database: runs of ops on one device, either of the placement itself or
/// of its difference to the previous one; a zstd frame if runs would not be short.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace emplace::record {

/// `placements` [count, ops], one byte per op. Layout (docs/reference/run_database.md): "RL1", count, ops;
/// per placement a byte (0: itself, 1: XOR with the previous one), the number of runs, and value (a byte)
/// and length of each run. Numbers are LEB128. @pre count divides the size.
Bytes pack_placements(std::span<const std::byte> placements, std::size_t count);

/// Decodes placements that were packed or compressed by zstd. `what`: their name in errors. Errors
/// (kInvalid): damaged data.
Result<Bytes> unpack_placements(Bytes packed, std::string_view what);

/// Size of an episode of `count` placements [count, ops] in the database, including its measurements and
/// its share of an update [B]. Pure; any thread.
std::int64_t episode_bytes(std::span<const std::byte> placements, std::size_t count,
                           std::span<const std::byte> actions, std::size_t devices);

}  // namespace emplace::record
