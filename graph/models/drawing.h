#pragma once
/// Random choices that the generators of graphs share.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "graph/models/networks.h"

namespace emplace::models {

/// A uniformly random multiple of `step` above `low`, in [low, high].
std::int64_t drawn(Rng& rng, std::int64_t low, std::int64_t high, std::int64_t step = 1);
/// A random number in [low, high] whose logarithm is uniform. @pre 0 < low <= high.
double drawn_log(Rng& rng, double low, double high);
/// True with this probability.
bool happens(Rng& rng, double probability);

/// A cell of ENAS's micro space: per block two different earlier states, and two of the first `kinds` ops of
/// CellOp.
std::vector<CellBlock> drawn_cell(Rng& rng, std::uint32_t blocks, std::uint32_t kinds);
/// A cell whose first block has an op at half the resolution, as a reduction needs.
std::vector<CellBlock> drawn_reduction(Rng& rng, std::uint32_t blocks, std::uint32_t kinds);

}  // namespace emplace::models
