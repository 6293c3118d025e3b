#pragma once
/// The part of the lookup family that works along one dimension: argmax, cumulative sums, one-hot.

#include <span>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> selection_kernels();

}  // namespace emplace::cpu
