#pragma once

#include <cstdint>

#include "runtime/core/credit.h"

namespace emplace::actors {

/// Consecutive placements of one episode: the unit of a lease.
struct Range {
  std::uint64_t number = 0;   ///< Unique in the dispatcher, from 1; the item of its leases.
  std::uint64_t episode = 0;  ///< Episode that its placements belong to.
  std::uint32_t begin = 0;    ///< Index of its first placement in the episode.
  std::uint32_t count = 0;    ///< Number of placements, >= 1.
  runtime::Credit size;       ///< Credit that a lease of it takes: its placements and their bytes.
};

}  // namespace emplace::actors
