#pragma once
/// The gather and scatter part of the lookup family: elements and slices.

#include <span>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

std::span<const KernelEntry> scatter_kernels();
/// Whole slices, each selected by an index or a tuple.
std::span<const KernelEntry> scatter_slices_kernels();

}  // namespace emplace::cpu
