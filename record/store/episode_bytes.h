#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace emplace::record {

/// [B] What an episode of `count` placements [count, ops] takes in the database, its measurements and its
/// share of an update included. Pure; any thread.
std::int64_t episode_bytes(std::span<const std::byte> placements, std::size_t count,
                           std::span<const std::byte> actions, std::size_t devices);

}  // namespace emplace::record
