#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace emplace::record {

/// Size of an episode of `count` placements [count, ops] in the database, including its measurements and
/// its share of an update [B]. Pure; any thread.
std::int64_t episode_bytes(std::span<const std::byte> placements, std::size_t count,
                           std::span<const std::byte> actions, std::size_t devices);

}  // namespace emplace::record
