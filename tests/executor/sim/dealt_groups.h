#pragma once
/// Groups of ops for the moves of simulated walks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace emplace::testing {

/// Groups of about `size` ops: near ones (issue order), or any.
inline std::vector<std::vector<std::uint32_t>> deal(Rng& rng, std::size_t ops, std::uint32_t size,
                                                    bool near) {
  std::vector<std::vector<std::uint32_t>> groups(ops / size + 1);
  for (std::uint32_t op = 0; op < ops; ++op)
    groups[near ? op / size : rng.below(static_cast<std::uint32_t>(groups.size()))].push_back(op);
  return groups;
}

}  // namespace emplace::testing
