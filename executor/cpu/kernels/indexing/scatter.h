#pragma once
/// The part of the lookup family that takes and puts by index, elements and slices.

#include <span>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> scatter_kernels();
std::span<const KernelEntry> scatter_slices_kernels();  ///< Whole slices, an index or a tuple for each.

}  // namespace emplace::cpu
